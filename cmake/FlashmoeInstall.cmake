# cmake --install: the shared library, the headers, find_package(FlashMoEScience) and pkg-config.
include(CMakePackageConfigHelpers)

set(flashmoe_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/FlashMoEScience)

install(TARGETS flashmoe EXPORT FlashMoEScienceTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/flashmoe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
if(FLASHMOE_BUILD_TOOLS) # what kernel projects include; the installed tool looks for it beside itself
  install(DIRECTORY include/cudadent DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endif()
install(EXPORT FlashMoEScienceTargets NAMESPACE FlashMoEScience:: DESTINATION ${flashmoe_package_dir})

configure_package_config_file(cmake/FlashMoEScienceConfig.cmake.in FlashMoEScienceConfig.cmake
                              INSTALL_DESTINATION ${flashmoe_package_dir} NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor version may break the ABI.
write_basic_package_version_file(FlashMoEScienceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/FlashMoEScienceConfig.cmake ${PROJECT_BINARY_DIR}/FlashMoEScienceConfigVersion.cmake
        DESTINATION ${flashmoe_package_dir})

# The .pc file finds its prefix from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH flashmoe_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/flashmoe.pc.in flashmoe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/flashmoe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
