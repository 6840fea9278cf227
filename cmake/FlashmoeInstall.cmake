# cmake --install: the shared library, the headers, find_package(FlashMoEScience) and pkg-config.
install(TARGETS flashmoe EXPORT FlashMoEScienceTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/flashmoe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
