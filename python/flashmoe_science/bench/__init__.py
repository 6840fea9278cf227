"""Side-by-side benchmark of the attention library: ``python -m flashmoe_science.bench --help``.

The folder also runs alone, without the compiled package around it (``python <this folder> --impl ctypes:<library>``),
so that the C library can be timed before anything is installed. Nothing in here imports the rest of the package.
"""
