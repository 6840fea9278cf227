# FLASHMOE_OLD_GLIBC: what is shipped runs with glibc 2.28 and later (the tag manylinux_2_28), though a newer one builds it
# (docs/adr/0028-wheels-for-glibc-2-28.md). Of g++ on x86-64; others build for what they have.
option(FLASHMOE_OLD_GLIBC "Shipped libraries run with glibc 2.28" OFF)

# flashmoe_for_old_glibc(target [OWN_CXX_LIBRARY]): what src/support/glibc_2_28.c has instead of newer names, and the
# libraries in which old systems have what it calls. With a C++ library of its own where the system's may be too old; only
# where no exception leaves the target.
function(flashmoe_for_old_glibc target)
  if(NOT FLASHMOE_OLD_GLIBC OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    return()
  endif()
  cmake_parse_arguments(ARG "OWN_CXX_LIBRARY" "" "" ${ARGN})
  set(names ${PROJECT_SOURCE_DIR}/src/support/glibc_2_28.c)
  target_sources(${target} PRIVATE ${names})
  set_property(SOURCE ${names} TARGET_DIRECTORY ${target} PROPERTY COMPILE_OPTIONS -ffunction-sections)
  target_link_options(${target} PRIVATE LINKER:--gc-sections LINKER:--no-as-needed,-l:libdl.so.2,-l:libpthread.so.0
                                        LINKER:--as-needed)
  if(ARG_OWN_CXX_LIBRARY)
    target_link_options(${target} PRIVATE -static-libstdc++)
  endif()
endfunction()
