# What the wheel `cudadent` holds below the folder of its package: packaging/cudadent installs the component. As a whole
# installation has it, but without symbolic links, which wheels cannot hold.
set(part COMPONENT cudadent EXCLUDE_FROM_ALL)
set(libraries lib/flashmoe/vgpu)
install(PROGRAMS $<TARGET_FILE:cudadent> DESTINATION bin ${part})
install(FILES $<TARGET_FILE:vgpu> DESTINATION ${libraries} RENAME libcuda.so.1 ${part})

# Who asks for libcuda.so is led to libcuda.so.1: a second copy would be a second driver in the process.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty.c CONTENT "")
add_library(vgpu_plain_name SHARED ${PROJECT_BINARY_DIR}/empty.c)
target_link_libraries(vgpu_plain_name PRIVATE fms_shipped -Wl,--no-as-needed vgpu)
set_target_properties(vgpu_plain_name PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so SKIP_BUILD_RPATH ON
                                                 LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/wheel)
flashmoe_exports(vgpu_plain_name)

foreach(library vgpu_plain_name vgpu_nvjitlink vgpu_nvml vgpu_cudart vgpu_cublas vgpu_cublasLt)
  install(FILES $<TARGET_FILE:${library}> DESTINATION ${libraries} ${part})
endforeach()
install(DIRECTORY include/cudadent DESTINATION include ${part})
install(DIRECTORY python/cudadent/ DESTINATION . ${part} FILES_MATCHING PATTERN "*.py")
install(DIRECTORY examples/virtual_gpu/ DESTINATION examples ${part} FILES_MATCHING PATTERN "*.py")
add_custom_target(cudadent_wheel_files DEPENDS cudadent vgpu vgpu_plain_name vgpu_nvjitlink vgpu_nvml vgpu_cudart vgpu_cublas vgpu_cublasLt)
