"""The Python side of cudadent: what lets programs and test suites of others run on the virtual GPU.

cudadent.aten           ATen's operators on the CPU, so that a torch program's own kernels are what runs
cudadent.pytest_plugin  pytest --virtual-gpu l4

Nothing is loaded until it is asked for, and nothing here needs the attention library.
"""
