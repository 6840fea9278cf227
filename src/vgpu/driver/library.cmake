# The driver as a library: libvgpu.so, and <build>/vgpu/ with libcuda.so.1, libcuda.so, libcudart.so.13, libcublas.so.13,
# libcublasLt.so.13, libnvJitLink.so.13 and libnvidia-ml.so.1, the directory that goes into LD_LIBRARY_PATH.

# The objects themselves: an archive would lose the strong definitions behind the weak ones of entry_points.cpp.
add_library(vgpu SHARED $<TARGET_OBJECTS:fms_vgpu_driver>)
target_link_libraries(vgpu PRIVATE fms_vgpu_observe fms_vgpu_exec fms_vgpu_memory fms_vgpu_ir fms_vgpu_ptx fms_devices
                                   fms_images fms_support fmt::fmt Threads::Threads)
target_link_options(vgpu PRIVATE -Wl,--exclude-libs,ALL
                    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/driver/exports.map)
set_property(TARGET vgpu APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/driver/exports.map)
# Whoever loaded it under any name finds it again as libcuda.so.1, and does not load a second driver.
target_link_options(vgpu PRIVATE -Wl,-soname,libcuda.so.1)
set_target_properties(vgpu PROPERTIES LINKER_LANGUAGE CXX NO_SONAME ON)
# It waits for threads by a function that only the C++ library of gcc 12 and later has: its own goes with it, but for what
# nobody calls, which would want a glibc as new as this machine's.
if(NOT FLASHMOE_SANITIZE)
  target_link_options(vgpu PRIVATE -static-libstdc++ LINKER:--gc-sections)
endif()

add_library(vgpu_nvjitlink SHARED $<TARGET_OBJECTS:fms_vgpu_nvjitlink>)
target_link_libraries(vgpu_nvjitlink PRIVATE fms_shipped fms_images fms_support fmt::fmt)
set(vgpu_directory ${PROJECT_BINARY_DIR}/vgpu)
set_target_properties(vgpu_nvjitlink PROPERTIES PREFIX "" OUTPUT_NAME libnvJitLink SUFFIX .so.13 NO_SONAME ON
                                                LINKER_LANGUAGE CXX
                                                LIBRARY_OUTPUT_DIRECTORY ${vgpu_directory})
target_link_options(vgpu_nvjitlink PRIVATE -Wl,-soname,libnvJitLink.so.13 -Wl,--exclude-libs,ALL
                    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/nvjitlink/exports.map)
set_property(TARGET vgpu_nvjitlink APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/nvjitlink/exports.map)

add_library(vgpu_nvml SHARED $<TARGET_OBJECTS:fms_vgpu_nvml>)
target_link_libraries(vgpu_nvml PRIVATE fms_shipped fms_devices fms_support fmt::fmt)
set_target_properties(vgpu_nvml PROPERTIES PREFIX "" OUTPUT_NAME libnvidia-ml SUFFIX .so.1 NO_SONAME ON
                                           LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${vgpu_directory})
target_link_options(vgpu_nvml PRIVATE -Wl,-soname,libnvidia-ml.so.1 -Wl,--exclude-libs,ALL
                    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/nvml/exports.map)
set_property(TARGET vgpu_nvml APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/nvml/exports.map)
add_dependencies(vgpu vgpu_nvjitlink vgpu_nvml)
add_custom_command(
  TARGET vgpu
  POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${vgpu_directory}
  COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:vgpu> ${vgpu_directory}/libcuda.so.1
  COMMAND ${CMAKE_COMMAND} -E create_symlink libcuda.so.1 ${vgpu_directory}/libcuda.so)

# The runtime API over the driver's: it needs libcuda.so.1, which may be any. The objects themselves, for the same reason.
add_library(vgpu_cudart SHARED $<TARGET_OBJECTS:fms_vgpu_cudart> driver/log.cpp)
target_link_libraries(vgpu_cudart PRIVATE fms_options fms_shipped fms_images fms_support vgpu)
set_target_properties(vgpu_cudart PROPERTIES PREFIX "" OUTPUT_NAME libcudart SUFFIX .so.13 NO_SONAME ON SKIP_BUILD_RPATH ON
                                             LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${vgpu_directory})
target_link_options(vgpu_cudart PRIVATE -Wl,-soname,libcudart.so.13 -Wl,--exclude-libs,ALL
                    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cudart/exports.map)
set_property(TARGET vgpu_cudart APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cudart/exports.map)

# cuBLAS on the CPU: one set of objects, of which each library shows its own names. They find each other's nothing.
foreach(library cublas cublasLt)
  set(exports ${CMAKE_CURRENT_SOURCE_DIR}/cublas/${library}.map)
  add_library(vgpu_${library} SHARED $<TARGET_OBJECTS:fms_vgpu_cublas> driver/log.cpp)
  target_link_libraries(vgpu_${library} PRIVATE fms_options fms_shipped fms_support fmt::fmt vgpu)
  set_target_properties(vgpu_${library} PROPERTIES PREFIX "" OUTPUT_NAME lib${library} SUFFIX .so.13 NO_SONAME ON
                                                   SKIP_BUILD_RPATH ON LINKER_LANGUAGE CXX
                                                   LIBRARY_OUTPUT_DIRECTORY ${vgpu_directory})
  target_link_options(vgpu_${library} PRIVATE -Wl,-soname,lib${library}.so.13 -Wl,--exclude-libs,ALL
                      -Wl,--version-script=${exports})
  set_property(TARGET vgpu_${library} APPEND PROPERTY LINK_DEPENDS ${exports})
endforeach()

# Installed beside bin/, where cudadent looks for it (src/runtime/driver.cpp).
set(vgpu_installed ${CMAKE_CURRENT_BINARY_DIR}/installed)
file(MAKE_DIRECTORY ${vgpu_installed})
file(CREATE_LINK libvgpu.so ${vgpu_installed}/libcuda.so.1 SYMBOLIC)
file(CREATE_LINK libcuda.so.1 ${vgpu_installed}/libcuda.so SYMBOLIC)
install(TARGETS vgpu vgpu_nvjitlink vgpu_nvml vgpu_cudart vgpu_cublas vgpu_cublasLt LIBRARY DESTINATION lib/flashmoe/vgpu)
install(FILES ${vgpu_installed}/libcuda.so.1 ${vgpu_installed}/libcuda.so DESTINATION lib/flashmoe/vgpu)

if(FLASHMOE_BUILD_TESTS)
  # They compare with the CUDA 13.0 toolkit and fail without it; the product needs none.
  find_path(FLASHMOE_CUDA_INCLUDE cuda_occupancy.h HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
            PATH_SUFFIXES include)
  if(FLASHMOE_CUDA_INCLUDE)
    flashmoe_test_flags(vgpu_abi_test COMPILE_OPTIONS -isystem${FLASHMOE_CUDA_INCLUDE})
    flashmoe_test_flags(vgpu_runtime_abi_test COMPILE_OPTIONS -isystem${FLASHMOE_CUDA_INCLUDE})
    flashmoe_test_flags(vgpu_cublas_abi_test COMPILE_OPTIONS -isystem${FLASHMOE_CUDA_INCLUDE})
  endif()
  flashmoe_test_flags(vgpu_abi_test COMPILE_DEFINITIONS
                      VGPU_STUB_LIBRARY="${FLASHMOE_CUDA_INCLUDE}/../lib64/stubs/libcuda.so")
  flashmoe_test_flags(vgpu_nvjitlink_test COMPILE_DEFINITIONS
                      REAL_NVJITLINK="${FLASHMOE_CUDA_INCLUDE}/../lib64/libnvJitLink.so.13")
  flashmoe_test_flags(vgpu_runtime_abi_test COMPILE_DEFINITIONS
                      REAL_CUDART="${FLASHMOE_CUDA_INCLUDE}/../lib64/libcudart.so.13"
                      OUR_CUDART="${vgpu_directory}/libcudart.so.13")
  add_dependencies(vgpu_runtime_abi_test vgpu_cudart)
  foreach(library CUBLAS=cublas CUBLASLT=cublasLt)
    string(REPLACE "=" ";" library ${library})
    list(POP_FRONT library macro)
    flashmoe_test_flags(vgpu_cublas_abi_test COMPILE_DEFINITIONS
                        REAL_${macro}="${FLASHMOE_CUDA_INCLUDE}/../lib64/lib${library}.so.13"
                        OUR_${macro}="${vgpu_directory}/lib${library}.so.13")
    add_dependencies(vgpu_cublas_abi_test vgpu_${library})
  endforeach()
  target_link_libraries(vgpu_cublas_tests PRIVATE vgpu)
  set_target_properties(vgpu_cublas_tests PROPERTIES BUILD_RPATH ${vgpu_directory}) # it asks for libcuda.so.1
  target_link_libraries(vgpu_cudart_tests PRIVATE vgpu)
  set_target_properties(vgpu_cudart_tests PROPERTIES BUILD_RPATH ${vgpu_directory}) # it asks for libcuda.so.1
  foreach(test vgpu_api_test vgpu_devices_test vgpu_limits_test vgpu_loading_test vgpu_nvjitlink_test)
    add_dependencies(${test} vgpu)
  endforeach()
  # They call the driver as a C program does, by types that only look alike to a compiler.
  foreach(program vgpu_driver_tests vgpu_nvjitlink_tests)
    target_link_libraries(${program} PRIVATE ${CMAKE_DL_LIBS})
    if(FLASHMOE_SANITIZE)
      target_compile_options(${program} PRIVATE -fno-sanitize=function)
    endif()
  endforeach()
endif()
