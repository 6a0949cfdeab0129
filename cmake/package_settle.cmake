# Run by cpack on the installed tree before it becomes a package: manual pages are compressed, without a time in them,
# and modes are those of Debian whatever the umask was.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.[15])
list(FILTER pages INCLUDE REGEX "/share/man/")
if(pages)
  execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
# Settings lie in /etc, whatever the prefix.
foreach(tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY} ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/ALL_COMPONENTS_IN_ONE)
  if(EXISTS ${tree}/usr/etc)
    file(RENAME ${tree}/usr/etc ${tree}/etc)
  endif()
endforeach()
execute_process(COMMAND chmod -R u=rwX,go=rX ${CPACK_TEMPORARY_INSTALL_DIRECTORY} COMMAND_ERROR_IS_FATAL ANY)
