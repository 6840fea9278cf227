# Writes docs/kernel-resources.md: cmake -DTOOL=kernel_resources -DTO=file -P kernel_table.cmake
execute_process(COMMAND ${TOOL} --markdown OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${TO} "# Kernels in the library

Made by the target `kernel_table` from the compiled images (ptxas of CUDA 13.0); the test `cuda_kernel_resources` fails when
one of them spills or uses local memory. CTAs per SM are arithmetic on these figures.

${table}")
