# fms_shipped: what everything that is shipped is compiled and linked with, on top of fms_options. Release code only.
add_library(fms_shipped INTERFACE)

# Canaries on stacks with arrays, checked libc calls, and a relocation table that is read-only before the first call (so
# every symbol is bound at load time). The linker refuses code that would have to be writable. tests/elf_test.py reads it
# from the files. Sanitizers see more, and do not go with it.
if(NOT FLASHMOE_SANITIZE)
  target_compile_options(fms_shipped INTERFACE $<$<CONFIG:Release>:-fstack-protector-strong>
                                               "$<$<CONFIG:Release>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>")
  target_link_options(fms_shipped INTERFACE $<$<CONFIG:Release>:LINKER:-z,relro,-z,now,-z,noexecstack,-z,text>)
endif()

# flashmoe_name_paths(target visibility folder name): the same bytes wherever the folder is, because __FILE__ and line
# tables call it by this name. Twice, because ccache makes paths relative to the build tree. The last that fits counts.
function(flashmoe_name_paths target visibility folder name)
  file(RELATIVE_PATH relative ${PROJECT_BINARY_DIR} ${folder})
  string(REGEX REPLACE "/$" "" relative "${relative}")
  target_compile_options(${target} ${visibility} $<$<CONFIG:Release>:-ffile-prefix-map=${relative}=${name}>
                                                 $<$<CONFIG:Release>:-ffile-prefix-map=${folder}=${name}>)
endfunction()
flashmoe_name_paths(fms_shipped INTERFACE ${PROJECT_SOURCE_DIR} .)
target_compile_options(fms_shipped INTERFACE $<$<CONFIG:Release>:-ffile-prefix-map=${PROJECT_BINARY_DIR}=build>)

# flashmoe_exports(target pattern...): what the library shows, and nothing else: hidden visibility leaves the templates
# of the C++ library out.
function(flashmoe_exports target)
  set(names "")
  if(ARGN)
    list(JOIN ARGN "; " names)
    set(names "global: ${names}; ")
  endif()
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ ${names}local: *; };\n")
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()
