# What `cmake --install` puts where (GNU folders), and the Debian package that CPack makes of it. Included last, when
# all targets are known. Components: runtime (the program, its manual, completions, contracts), service (systemd units,
# settings), library (libdriftgate.so and driftgate.h), example (tinylm), and plugins (CUDA, NCCL and MPI), which is
# installed but in no package: each needs what most machines lack. scripts/package builds the package.
if(NOT TARGET driftgate OR DRIFTGATE_SANITIZE)
  return()
endif()
include(GNUInstallDirs)
set(DRIFTGATE_LIB lib/driftgate)  # not the multiarch folder: programs, and found from the share folder
set(DRIFTGATE_SHARE ${CMAKE_INSTALL_DATADIR}/driftgate)
set(made ${CMAKE_BINARY_DIR}/package)

# What is installed beside programs is written by the target driftgate_package_files, which is no part of `all`: those who
# use a build folder as it is, or test it, need none of it. The manual and the completions come from the program's own tables.
set(completions ${made}/completions/driftgate.bash ${made}/completions/_driftgate ${made}/completions/driftgate.fish)
add_custom_command(OUTPUT ${completions} ${made}/man/driftgate.1
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/completions.py $<TARGET_FILE:driftgate> ${made}/completions
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/manual.py $<TARGET_FILE:driftgate> ${made}/man
  DEPENDS driftgate ${CMAKE_SOURCE_DIR}/scripts/completions.py ${CMAKE_SOURCE_DIR}/scripts/manual.py
  COMMENT "Writing the manual and the completions" VERBATIM)
add_custom_target(driftgate_manual DEPENDS ${completions} ${made}/man/driftgate.1)

# Files of Debian that a script makes: changelogs and the maintainer scripts with their versions.
set(DRIFTGATE_DEBIAN_REVISION 1 CACHE STRING "Revision of the Debian package")
set(DRIFTGATE_PACKAGE_VERSION ${PROJECT_VERSION} CACHE STRING "Version of the Debian package, without its revision")
set(debian ${made}/debian)
add_custom_target(driftgate_debian
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/debian_files.py
    ${DRIFTGATE_PACKAGE_VERSION}-${DRIFTGATE_DEBIAN_REVISION} ${debian}
  COMMENT "Writing the changelogs and the maintainer scripts" VERBATIM)
add_custom_target(driftgate_package_files)
add_dependencies(driftgate_package_files driftgate_manual driftgate_debian)

# ---- What is installed
# Says what to build before a file is installed, instead of which file is missing after some were.
function(driftgate_install_needs component file)
  install(CODE "if(NOT EXISTS \"${file}\")
    message(FATAL_ERROR \"The manual, the completions or Debian's files are not built. Build them first:\n  cmake --build '${CMAKE_BINARY_DIR}' --target driftgate_package_files\")
  endif()" COMPONENT ${component})
endfunction()
driftgate_install_needs(runtime ${made}/man/driftgate.1)
driftgate_install_needs(debian ${debian}/changelog.Debian.gz)
set_target_properties(driftgate PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/driftgate")  # where plug-ins are looked for
install(TARGETS driftgate RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(DIRECTORY ${made}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime FILES_MATCHING PATTERN "*.1")
install(DIRECTORY ${made}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT runtime FILES_MATCHING PATTERN "*.5")
install(FILES ${made}/completions/driftgate.bash RENAME driftgate COMPONENT runtime
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${made}/completions/_driftgate COMPONENT runtime DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${made}/completions/driftgate.fish COMPONENT runtime
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY configs/contracts DESTINATION ${DRIFTGATE_SHARE} COMPONENT runtime)
install(FILES scripts/verify_bundle.py DESTINATION ${DRIFTGATE_SHARE} COMPONENT runtime)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime
  FILES_MATCHING PATTERN "*.md" PATTERN "design" EXCLUDE PATTERN "images" EXCLUDE PATTERN "plots" EXCLUDE)

install(FILES configs/systemd/driftgate.service configs/systemd/driftgate.socket configs/systemd/driftgate-router.socket
  configs/systemd/driftgate-router@.service DESTINATION lib/systemd/system COMPONENT service)
install(FILES configs/systemd/driftgate.sysusers RENAME driftgate.conf DESTINATION lib/sysusers.d COMPONENT service)
install(FILES configs/systemd/driftgate.tmpfiles RENAME driftgate.conf DESTINATION lib/tmpfiles.d COMPONENT service)
install(FILES configs/debian/driftgate.yaml DESTINATION etc/driftgate COMPONENT service)  # in the package: /etc
foreach(folder prometheus grafana)
  if(EXISTS ${CMAKE_SOURCE_DIR}/configs/${folder})
    install(DIRECTORY configs/${folder} DESTINATION ${DRIFTGATE_SHARE} COMPONENT service)
  endif()
endforeach()

if(TARGET driftgate_shared)
  install(TARGETS driftgate_shared
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT library
    PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
  install(FILES ${CMAKE_BINARY_DIR}/daemon/library/driftgate.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
endif()

if(TARGET tinylm)
  install(TARGETS tinylm RUNTIME DESTINATION ${DRIFTGATE_LIB} COMPONENT example)
  install(DIRECTORY examples/tinylm/model examples/tinylm/data examples/tinylm/int8-static
    DESTINATION ${DRIFTGATE_SHARE}/examples/tinylm COMPONENT example)
  install(DIRECTORY configs/demo/kernels DESTINATION ${DRIFTGATE_SHARE}/examples/tinylm COMPONENT example)
  install(FILES configs/demo/contract.yaml DESTINATION ${DRIFTGATE_SHARE}/examples/tinylm COMPONENT example)
endif()

foreach(plugin driftgate_cuda driftgate_nccl driftgate_mpi)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${DRIFTGATE_LIB} COMPONENT plugins)
  endif()
endforeach()

# ---- The Debian package
install(FILES configs/debian/copyright ${debian}/changelog.gz ${debian}/changelog.Debian.gz
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT debian)
install(FILES configs/debian/lintian-overrides RENAME driftgate
  DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides COMPONENT debian)

set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PACKAGE_NAME driftgate)
set(CPACK_PACKAGE_VERSION ${DRIFTGATE_PACKAGE_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE ${DRIFTGATE_DEBIAN_REVISION})
set(CPACK_PACKAGE_CONTACT "driftgate maintainers <maintainers@driftgate.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "gate between a model's checkpoints and its users")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Measures the drift between a language model as it was trained and as an
inference kernel serves it, decides by a contract whether a new version may
replace the one that is served, and routes users' requests meanwhile: shadow
traffic, a canary that grows by steps, and a rollback at the first harm. Every
measurement and every decision is kept in a signed log that others can check.
.
This package has the daemon with its page, the router, the commands, the C
library, contracts, and a small model (tinylm) to try it all with.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# sysusers.d and tmpfiles.d make the user and its folder; the service's reload runs /bin/kill.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles, procps, tzdata")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, python3")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "haproxy, prometheus")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${debian}/preinst ${debian}/postinst ${debian}/prerm ${debian}/postrm ${CMAKE_SOURCE_DIR}/configs/debian/conffiles
  ${CMAKE_SOURCE_DIR}/configs/debian/triggers)
if(TARGET driftgate_shared)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL runtime service library example debian)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/package_files.cmake)
set(CPACK_THREADS 0)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # cpack packs what is built, and builds nothing
include(CPack)
