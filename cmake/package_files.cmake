# Read by cpack before it installs: the same bits for the same sources.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_settle.cmake)
