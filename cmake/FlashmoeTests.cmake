# Tests sit beside the code; those of a folder are one program, and each source is a test of its own for ctest.

# The one object that holds paths of this clone.
add_library(fms_test_tree STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/support/tree_for_test.cpp)
target_link_libraries(fms_test_tree PRIVATE fms_options)
target_compile_definitions(fms_test_tree PRIVATE FLASHMOE_SOURCE_TREE="${PROJECT_SOURCE_DIR}"
                                                 FLASHMOE_BUILD_TREE="${PROJECT_BINARY_DIR}")

if(FLASHMOE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(nlohmann_json 3.11 REQUIRED)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_headers.cpp CONTENT "")
  add_library(fms_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
  target_link_libraries(fms_test_headers PRIVATE fms_options GTest::gtest fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(fms_test_headers PRIVATE <gtest/gtest.h> <nlohmann/json.hpp> <fmt/format.h> <algorithm>
                            <filesystem> <fstream> <functional> <map> <random> <string> <vector>)
  flashmoe_waiting_code(fms_test_headers)
  add_library(fms_test_main STATIC ${PROJECT_SOURCE_DIR}/src/support/run_tests_for_test.cpp
                                   ${PROJECT_SOURCE_DIR}/src/support/main_for_test.cpp)
  target_link_libraries(fms_test_main PRIVATE fms_options PUBLIC fms_test_tree GTest::gtest)
  flashmoe_waiting_code(fms_test_main)
endif()

# A program of tests. A test unit is small and its headers are not: it is compiled at low optimisation against one
# precompiled header, unless it computes so much itself that it is OPTIMISED.
function(flashmoe_test_program name is_optimised)
  add_executable(${name})
  target_link_libraries(${name} PRIVATE fms_options fms_test_main)
  if(FLASHMOE_LLD)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
  if(NOT is_optimised)
    flashmoe_waiting_code(${name})
    target_link_libraries(${name} PRIVATE fmt::fmt) # its definitions are part of the precompiled header
    target_precompile_headers(${name} REUSE_FROM fms_test_headers)
  endif()
endfunction()

# flashmoe_test(name SOURCES ... USES ... [PROGRAM name] [LABELS ...] [TIMEOUT s] [OPTIMISED]). PROGRAM: together with the
# other tests that name it, for a test of one source; what replaces a function of the whole program, or links what others
# must not see, has its own. Those with the label no-sanitizer are not even built under one.
function(flashmoe_test name)
  if(NOT FLASHMOE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "OPTIMISED" "PROGRAM;TIMEOUT" "SOURCES;USES;LABELS" ${ARGN})
  if(FLASHMOE_SANITIZE AND "no-sanitizer" IN_LIST ARG_LABELS)
    return()
  endif()
  set(program ${name})
  set(selection "")
  if(ARG_PROGRAM)
    set(program ${ARG_PROGRAM})
    cmake_path(GET ARG_SOURCES FILENAME file)
    set(selection --source=${file})
    set_property(GLOBAL APPEND PROPERTY FLASHMOE_TESTS_TOGETHER "$<TARGET_FILE:${program}> ${file}")
  endif()
  if(NOT TARGET ${program})
    flashmoe_test_program(${program} "${ARG_OPTIMISED}")
    if(ARG_PROGRAM)
      flashmoe_together_in_gate(${program} 8)
    endif()
  endif()
  if(NOT TARGET ${name}) # a target is named as its test
    add_custom_target(${name} DEPENDS ${program})
  endif()
  target_sources(${program} PRIVATE ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE ${ARG_USES})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1200) # it ends what hangs: a busy machine has been seen to take four times as long
  endif()
  set_property(GLOBAL PROPERTY FLASHMOE_COMMAND_OF_${name} $<TARGET_FILE:${program}> ${selection})
  set_property(GLOBAL PROPERTY FLASHMOE_SOURCES_OF_${name} ${ARG_SOURCES})
  flashmoe_test_again(${name} ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                                          ENVIRONMENT "${FLASHMOE_TEST_ENVIRONMENT}")
endfunction()

# flashmoe_test_command(name variable): what runs the test.
function(flashmoe_test_command name variable)
  get_property(command GLOBAL PROPERTY FLASHMOE_COMMAND_OF_${name})
  set(${variable} "${command}" PARENT_SCOPE)
endfunction()

# flashmoe_test_again(name other [argument...]): a test of the name `other` that runs the same, with these arguments.
function(flashmoe_test_again name other)
  flashmoe_test_command(${name} command)
  # Where the compiler was started: with a compiler cache __FILE__ is relative to it.
  add_test(NAME ${other} COMMAND ${command} ${ARGN} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

# flashmoe_test_flags(name COMPILE_DEFINITIONS|COMPILE_OPTIONS|INCLUDE_DIRECTORIES value...): for the test's own sources.
function(flashmoe_test_flags name property)
  get_property(sources GLOBAL PROPERTY FLASHMOE_SOURCES_OF_${name})
  set_property(SOURCE ${sources} APPEND PROPERTY ${property} ${ARGN})
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
  flashmoe_test_again(${name} ${name}_timed --gtest_filter=Timed*)
  set_tests_properties(${name}_timed PROPERTIES RUN_SERIAL ON TIMEOUT ${timeout} LABELS "${labels};timed"
                                                ENVIRONMENT "${environment}")
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "GTEST_FILTER=-Timed*")
endfunction()
