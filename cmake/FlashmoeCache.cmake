# What compilers made before: objects by ccache, CUDA images by their content, both outside the clone and shared by all
# clones and build trees. It only saves time; an empty FLASHMOE_BUILD_CACHE builds without it.
if(DEFINED ENV{FLASHMOE_CACHE})
  set(default_cache "$ENV{FLASHMOE_CACHE}")
elseif(DEFINED ENV{HOME})
  set(default_cache "$ENV{HOME}/.cache/flashmoe-science")
endif()
set(FLASHMOE_BUILD_CACHE "${default_cache}" CACHE STRING "Folder that keeps what was compiled before; empty: none")

find_program(FLASHMOE_CCACHE ccache)
if(FLASHMOE_BUILD_CACHE AND FLASHMOE_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The base directory makes paths relative, so that clones share. With precompiled headers ccache must be told that
  # their macros and times are not looked at; clang, not to write the times into them. A header of 130 MB is hashed once,
  # not for every file that reads it.
  find_program(FLASHMOE_ENV env REQUIRED)
  set(launcher ${FLASHMOE_ENV} CCACHE_DIR=${FLASHMOE_BUILD_CACHE}/ccache CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
               CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_MAXSIZE=8G CCACHE_INODECACHE=1 ${FLASHMOE_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()

if(FLASHMOE_BUILD_CACHE) # one that cannot be made is no error
  execute_process(COMMAND ${CMAKE_COMMAND} -E make_directory ${FLASHMOE_BUILD_CACHE}/cuda-images OUTPUT_QUIET ERROR_QUIET)
endif()

# flashmoe_cached_command(OUTPUT file TOOL version INPUTS file... COMMAND command...): as add_custom_command, but takes
# the file from the cache where the same command with the same inputs made it before. `TOOL` tells compilers apart; the
# command may name paths of this clone, the result may not depend on them.
function(flashmoe_cached_command)
  cmake_parse_arguments(ARG "" "OUTPUT;TOOL;COMMENT" "INPUTS;COMMAND" ${ARGN})
  set(command ${ARG_COMMAND})
  if(FLASHMOE_BUILD_CACHE)
    list(JOIN ARG_INPUTS "|" inputs) # a semicolon would not survive the way through the command line
    set(command ${CMAKE_COMMAND} "-DCACHE=${FLASHMOE_BUILD_CACHE}/cuda-images" "-DTOOL=${ARG_TOOL}"
                -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DBINARY_DIR=${PROJECT_BINARY_DIR} "-DINPUTS=${inputs}"
                -DOUTPUT=${ARG_OUTPUT} -P ${PROJECT_SOURCE_DIR}/cmake/CachedCommand.cmake -- ${ARG_COMMAND})
  endif()
  add_custom_command(OUTPUT ${ARG_OUTPUT} COMMAND ${command} DEPENDS ${ARG_INPUTS} COMMENT "${ARG_COMMENT}" VERBATIM)
endfunction()

# flashmoe_cached_ptxas(test ...): tests whose virtual GPU asks ptxas for registers, which is most of their time.
function(flashmoe_cached_ptxas)
  if(NOT FLASHMOE_BUILD_CACHE OR NOT FLASHMOE_PTXAS)
    return()
  endif()
  set(script ${PROJECT_BINARY_DIR}/cached_ptxas)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/cached_ptxas.sh.in ${script} @ONLY
                 FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT VGPU_PTXAS=${script})
endfunction()
