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

# flashmoe_together(target count): when the folder is read, every `count` of the target's sources (0: all) become one
# translation unit, so that templates are compiled once for all of them. What has flags of its own stays alone, and what
# says SKIP_UNITY_BUILD_INCLUSION, as to CMake's own way. That every file includes what it uses is for the presets dev and
# release to see, and for clang-tidy at night, which take each alone. (CMake's own way names files by their full path: the
# compiler cache would not find them in another clone.)
function(flashmoe_together target count)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL flashmoe_join_sources ${target} ${count})")
endfunction()

function(flashmoe_join_sources target count)
  get_target_property(sources ${target} SOURCES)
  set(alone "")
  set(joined "")
  foreach(source IN LISTS sources)
    set(own_flags "")
    foreach(property COMPILE_DEFINITIONS COMPILE_OPTIONS INCLUDE_DIRECTORIES OBJECT_DEPENDS SKIP_UNITY_BUILD_INCLUSION)
      get_source_file_property(value ${source} ${property})
      if(value)
        list(APPEND own_flags ${value})
      endif()
    endforeach()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${path} is_made)
    if(own_flags OR is_made OR NOT path MATCHES "\\.cpp$")
      list(APPEND alone ${source})
    else()
      list(APPEND joined ${path})
    endif()
  endforeach()
  set(units "")
  set(included 0)
  foreach(path IN LISTS joined)
    if(included EQUAL 0)
      list(LENGTH units number)
      list(APPEND units ${CMAKE_CURRENT_BINARY_DIR}/together/${target}_${number}.cpp)
      set(text_${number} "")
    endif()
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${path})
    string(APPEND text_${number} "#include \"${name}\"\n")
    math(EXPR included "${included} + 1")
    if(included EQUAL count)
      set(included 0)
    endif()
  endforeach()
  set(number 0)
  foreach(unit IN LISTS units)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text_${number}}" @ONLY)
    math(EXPR number "${number} + 1")
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${alone} ${units})
endfunction()

# In the builds of the gate.
function(flashmoe_together_in_gate target count)
  if(FLASHMOE_UNITY OR FLASHMOE_SANITIZE)
    flashmoe_together(${target} ${count})
  endif()
endfunction()

# Some files of a folder that waits; under a sanitizer, which is the gate's second build, all.
function(flashmoe_waiting_files_together target)
  if(FLASHMOE_SANITIZE)
    flashmoe_together(${target} 0)
  elseif(FLASHMOE_UNITY)
    flashmoe_together(${target} 4)
  endif()
endfunction()

include(FlashmoeTests)
