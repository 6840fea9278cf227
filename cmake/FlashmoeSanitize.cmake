# FLASHMOE_SANITIZE: which sanitizers, and what a test needs in its environment to run under them.
set(FLASHMOE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")
# Tests run several at once and one of them starts 64 threads: waiting threads must not hold the cores.
set(FLASHMOE_TEST_ENVIRONMENT "OMP_WAIT_POLICY=passive" "XDG_STATE_HOME=${CMAKE_BINARY_DIR}/state")
# For tests that disassemble: nvdisasm of the clients' environment (.ci/setup), where the machine has no other.
find_program(FLASHMOE_NVDISASM nvdisasm HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT FLASHMOE_NVDISASM)
  file(GLOB packaged ${PROJECT_SOURCE_DIR}/build/venv-clients/lib/python3*/site-packages/nvidia/*/bin/nvdisasm)
  if(packaged)
    list(GET packaged 0 packaged)
    list(APPEND FLASHMOE_TEST_ENVIRONMENT "NVDISASM=${packaged}")
  endif()
endif()

# GNU's linker takes three or four times as long for a test, and there are hundreds of them.
find_program(FLASHMOE_LLD ld.lld)
if(FLASHMOE_SANITIZE)
  # Line tables are all that a report needs.
  add_compile_options(-fsanitize=${FLASHMOE_SANITIZE} -fno-omit-frame-pointer -g1 -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FLASHMOE_SANITIZE})
  if(FLASHMOE_LLD) # all of it; without sanitizers the tests alone, and what is shipped by GNU's
    add_link_options(-fuse-ld=lld)
  endif()
endif()

if(FLASHMOE_SANITIZE MATCHES "address")
  list(APPEND FLASHMOE_TEST_ENVIRONMENT
       "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0")
endif()

if(FLASHMOE_SANITIZE MATCHES "thread")
  # The thread sanitizer cannot see the barriers of an OpenMP runtime that is not instrumented, and would report every
  # access on the far side of one as a race. libomp announces them to Archer, which passes them on; libgomp cannot.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FLASHMOE_SANITIZE=thread needs clang with libomp and its Archer tool: cmake --preset tsan")
  endif()
  get_filename_component(llvm_bin "${CMAKE_CXX_COMPILER}" REALPATH)
  get_filename_component(llvm_bin "${llvm_bin}" DIRECTORY)
  find_library(FLASHMOE_ARCHER NAMES archer HINTS ${llvm_bin}/../lib REQUIRED)
  # The second setting only drops what libomp itself does in its own memory; our code is instrumented.
  list(APPEND FLASHMOE_TEST_ENVIRONMENT "OMP_TOOL_LIBRARIES=${FLASHMOE_ARCHER}"
                                "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:second_deadlock_stack=1")
endif()
