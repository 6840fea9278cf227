# The driver as a library: libvgpu.so, and <build>/vgpu/ with libcuda.so.1 and an empty libnvJitLink.so.13, the
# directory that goes into LD_LIBRARY_PATH.

# The objects themselves: an archive would lose the strong definitions behind the weak ones of entry_points.cpp.
add_library(vgpu SHARED $<TARGET_OBJECTS:fms_vgpu_driver>)
target_link_libraries(vgpu PRIVATE fms_vgpu_observe fms_vgpu_exec fms_vgpu_memory fms_vgpu_ir fms_vgpu_ptx fms_devices
                                   fms_images fms_support fmt::fmt Threads::Threads)
target_link_options(vgpu PRIVATE -Wl,--exclude-libs,ALL
                    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/driver/exports.map)
set_property(TARGET vgpu APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/driver/exports.map)
set_target_properties(vgpu PROPERTIES LINKER_LANGUAGE CXX)

add_library(vgpu_nvjitlink SHARED driver/nvjitlink.c)
set(vgpu_directory ${PROJECT_BINARY_DIR}/vgpu)
set_target_properties(vgpu_nvjitlink PROPERTIES PREFIX "" OUTPUT_NAME libnvJitLink SUFFIX .so.13 NO_SONAME ON
                                                LIBRARY_OUTPUT_DIRECTORY ${vgpu_directory})
target_link_libraries(vgpu_nvjitlink PRIVATE fms_shipped)
target_link_options(vgpu_nvjitlink PRIVATE -Wl,-soname,libnvJitLink.so.13)
add_dependencies(vgpu vgpu_nvjitlink)
add_custom_command(
  TARGET vgpu
  POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${vgpu_directory}
  COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:vgpu> ${vgpu_directory}/libcuda.so.1)

# Installed beside bin/, where cudadent looks for it (src/runtime/driver.cpp).
set(vgpu_installed ${CMAKE_CURRENT_BINARY_DIR}/installed/libcuda.so.1)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/installed)
file(CREATE_LINK libvgpu.so ${vgpu_installed} SYMBOLIC)
install(TARGETS vgpu vgpu_nvjitlink LIBRARY DESTINATION lib/flashmoe/vgpu)
install(FILES ${vgpu_installed} DESTINATION lib/flashmoe/vgpu)

if(FLASHMOE_BUILD_TESTS)
  # They compare with the CUDA 13.0 toolkit and fail without it; the product needs none.
  find_path(FLASHMOE_CUDA_INCLUDE cuda_occupancy.h HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
            PATH_SUFFIXES include)
  if(FLASHMOE_CUDA_INCLUDE)
    target_include_directories(vgpu_abi_test SYSTEM PRIVATE ${FLASHMOE_CUDA_INCLUDE})
  endif()
  target_compile_definitions(vgpu_abi_test
                             PRIVATE VGPU_STUB_LIBRARY="${FLASHMOE_CUDA_INCLUDE}/../lib64/stubs/libcuda.so")
  foreach(test vgpu_api_test vgpu_devices_test)
    target_compile_definitions(${test} PRIVATE VGPU_LIBRARY="$<TARGET_FILE:vgpu>")
    target_link_libraries(${test} PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(${test} vgpu)
    # They call the driver as a C program does, by types that only look alike to a compiler.
    if(FLASHMOE_SANITIZE)
      target_compile_options(${test} PRIVATE -fno-sanitize=function)
    endif()
  endforeach()
endif()
