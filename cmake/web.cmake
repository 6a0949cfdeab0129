# The page (web/), which the daemon serves under /. Sets DRIFTGATE_WEB_FOUND and says so in one line. Node.js 18 or newer
# and npm build it. Its packages are installed into web/node_modules when CMake configures, once for each
# web/package-lock.json and with no script of theirs run; the page itself is built with the program, when one of its
# files has changed.

set(DRIFTGATE_WEB AUTO CACHE STRING "The page: AUTO (built where Node.js and npm are found and packages can be installed; \
never with sanitizers), ON (an error otherwise) or OFF")
set_property(CACHE DRIFTGATE_WEB PROPERTY STRINGS AUTO ON OFF)
set(DRIFTGATE_WEB_FOUND FALSE)
set(DRIFTGATE_WEB_FOLDER ${CMAKE_SOURCE_DIR}/web)

# Why the page cannot be built, in `why`; empty where it can.
function(driftgate_look_for_web why)
  set(${why} "" PARENT_SCOPE)
  if(NOT EXISTS ${DRIFTGATE_WEB_FOLDER}/package-lock.json)
    set(${why} "there is no web/package-lock.json" PARENT_SCOPE)
    return()
  endif()
  find_program(DRIFTGATE_NODE NAMES node nodejs)
  find_program(DRIFTGATE_NPM npm)
  if(NOT DRIFTGATE_NODE OR NOT DRIFTGATE_NPM)
    set(${why} "no node or no npm found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${DRIFTGATE_NODE} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  string(REGEX REPLACE "^v" "" version "${version}")
  if(NOT version MATCHES "^[0-9]" OR version VERSION_LESS 18)
    set(${why} "Node.js is '${version}' (18 or newer is needed)" PARENT_SCOPE)
  endif()
  set(DRIFTGATE_NODE_VERSION ${version} PARENT_SCOPE)
endfunction()

# Installs the packages unless those of this lock file are there: npm writes node_modules/.package-lock.json last.
function(driftgate_install_web why)
  set(${why} "" PARENT_SCOPE)
  set(files ${DRIFTGATE_WEB_FOLDER}/package.json ${DRIFTGATE_WEB_FOLDER}/package-lock.json)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(installed ${DRIFTGATE_WEB_FOLDER}/node_modules/.package-lock.json)
  set(current TRUE)
  foreach(file IN LISTS files)
    if(NOT EXISTS ${installed} OR ${file} IS_NEWER_THAN ${installed})
      set(current FALSE)
    endif()
  endforeach()
  if(current)
    return()
  endif()
  message(STATUS "Page: installing its packages")
  execute_process(COMMAND ${DRIFTGATE_NPM} ci --ignore-scripts --no-audit --no-fund --fetch-retries=1
    WORKING_DIRECTORY ${DRIFTGATE_WEB_FOLDER} TIMEOUT 600 RESULT_VARIABLE code
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/npm.log ERROR_FILE ${CMAKE_BINARY_DIR}/npm.log)
  if(NOT code EQUAL 0)
    set(${why} "'npm ci' in web/ failed (${code}); see npm.log in the build folder" PARENT_SCOPE)
    file(READ ${CMAKE_BINARY_DIR}/npm.log said)
    set(DRIFTGATE_NPM_SAID "${said}" PARENT_SCOPE)
  elseif(EXISTS ${installed})
    file(TOUCH ${installed})
  endif()
endfunction()

# Writes the C++ source `output`, the table of the page's files, whenever the page has changed.
function(driftgate_build_web output)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${DRIFTGATE_WEB_FOLDER}/src/*)
  file(GLOB settings CONFIGURE_DEPENDS ${DRIFTGATE_WEB_FOLDER}/*.json ${DRIFTGATE_WEB_FOLDER}/*.mjs)
  set(dist ${CMAKE_CURRENT_BINARY_DIR}/dist)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${dist}
    COMMAND ${DRIFTGATE_NODE} build.mjs --outdir ${dist}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/embed_web.py ${dist} ${output}
    DEPENDS ${sources} ${settings} ${CMAKE_SOURCE_DIR}/cmake/embed_web.py
    WORKING_DIRECTORY ${DRIFTGATE_WEB_FOLDER}
    COMMENT "Building the page"
    VERBATIM)
endfunction()

if(DRIFTGATE_WEB STREQUAL "AUTO" AND DRIFTGATE_SANITIZE)
  message(STATUS "Page: off with sanitizers")
elseif(NOT DRIFTGATE_WEB)
  message(STATUS "Page: off (DRIFTGATE_WEB=${DRIFTGATE_WEB})")
else()
  driftgate_look_for_web(missing)
  if(NOT missing)
    driftgate_install_web(missing)
  endif()
  if(NOT missing)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    set(DRIFTGATE_WEB_FOUND TRUE)
    message(STATUS "Page: on, Node.js ${DRIFTGATE_NODE_VERSION}")
  elseif(DRIFTGATE_WEB STREQUAL "AUTO")
    message(STATUS "Page: off, ${missing}")
  else()
    message(FATAL_ERROR "DRIFTGATE_WEB=${DRIFTGATE_WEB}, but ${missing}\n${DRIFTGATE_NPM_SAID}")
  endif()
endif()
