# One target per folder of src/: flashmoe_folder(name SOURCES ... USES ...) makes the static library fms_<name>.
# Who may use whom is held by tests/include_rule_test.py.

add_library(fms_options INTERFACE)
target_compile_features(fms_options INTERFACE cxx_std_20)
target_compile_options(fms_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
                                             -fno-math-errno -ffp-contract=off)
# gcc 12 sees an overlap in every "literal" + std::string at -O3 (GCC bug 105651).
target_compile_options(fms_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_include_directories(fms_options INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

include(FlashmoeSanitize)
include(FlashmoeHarden)

function(flashmoe_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES" ${ARGN})
  add_library(fms_${name} STATIC ${ARG_SOURCES})
  set_target_properties(fms_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                               VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  target_link_libraries(fms_${name} PRIVATE fms_options fms_shipped)
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(fms_${name} PRIVATE fms_${used})
  endforeach()
endfunction()

# For code that starts processes and waits for them: nothing in it is worth the compiler's time at -O3, and sanitizers
# see as much at -O0, where clang takes less than half as long.
function(flashmoe_waiting_code target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(FLASHMOE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# Some files of such a folder as one translation unit, so that templates are compiled once for all of them; under a
# sanitizer, which is the gate's second build, the whole folder. That every file includes what it uses is for clang-tidy
# to see, which takes each alone.
function(flashmoe_waiting_files_together target)
  if(FLASHMOE_SANITIZE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  elseif(FLASHMOE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
  endif()
endfunction()

if(FLASHMOE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(fmt REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cpp CONTENT "")
  add_library(fms_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(fms_test_headers PRIVATE fms_options GTest::gtest fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(fms_test_headers PRIVATE <gtest/gtest.h> <nlohmann/json.hpp> <fmt/format.h> <algorithm>
                            <filesystem> <fstream> <functional> <map> <random> <string> <vector>)
  flashmoe_waiting_code(fms_test_headers)
endif()

# Tests sit beside the code: flashmoe_test(name SOURCES ... USES ... [LABELS ...] [TIMEOUT s] [OPTIMISED]). Those with the
# label no-sanitizer are not even built under one. A test unit is small and its headers are not: it is compiled at low
# optimisation against one precompiled header, unless it computes so much itself that it is OPTIMISED.
function(flashmoe_test name)
  if(NOT FLASHMOE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "OPTIMISED" "TIMEOUT" "SOURCES;USES;LABELS" ${ARGN})
  if(FLASHMOE_SANITIZE AND "no-sanitizer" IN_LIST ARG_LABELS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE fms_options ${ARG_USES} GTest::gtest GTest::gtest_main)
  if(FLASHMOE_LLD)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
  if(NOT ARG_OPTIMISED)
    flashmoe_waiting_code(${name})
    target_link_libraries(${name} PRIVATE fmt::fmt) # its definitions are part of the precompiled header
    target_precompile_headers(${name} REUSE_FROM fms_test_headers)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1200) # it ends what hangs: a busy machine has been seen to take four times as long
  endif()
  # Where the compiler was started: with a compiler cache __FILE__ is relative to it.
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                                          ENVIRONMENT "${FLASHMOE_TEST_ENVIRONMENT}")
endfunction()

# The cases of a test whose suites' names begin with Timed judge measured times: flashmoe_timed_part(gates_test) makes
# gates_test_timed of them, which runs alone.
function(flashmoe_timed_part name)
  if(NOT TARGET ${name})
    return()
  endif()
  get_test_property(${name} ENVIRONMENT environment)
  get_test_property(${name} LABELS labels)
  get_test_property(${name} TIMEOUT timeout)
  add_test(NAME ${name}_timed COMMAND ${name} --gtest_filter=Timed* WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  set_tests_properties(${name}_timed PROPERTIES RUN_SERIAL ON TIMEOUT ${timeout} LABELS "${labels};timed"
                                                ENVIRONMENT "${environment}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "GTEST_FILTER=-Timed*")
endfunction()
