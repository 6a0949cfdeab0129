# The page (web/), which the daemon serves under /. Sets DRIFTGATE_WEB_FOUND and says so in one line. Node.js 18 or newer
# and npm build it. Its packages are installed into web/node_modules when CMake configures, once for each
# web/package-lock.json and with no script of theirs run; the page itself is built with the program, when one of its
# files has changed.
#
# Without the page, DRIFTGATE_WEB_REASON says why in one line. Where nobody asked for that, DRIFTGATE_WEB_REMEDY says what
# to do, and both are lines of page-missing.txt in the build folder, which scripts/page-note shows.

set(DRIFTGATE_WEB AUTO CACHE STRING "The page: AUTO (built where Node.js and npm are found and packages can be installed; \
never with sanitizers), ON (an error otherwise) or OFF")
set_property(CACHE DRIFTGATE_WEB PROPERTY STRINGS AUTO ON OFF)
set(DRIFTGATE_WEB_FOUND FALSE)
set(DRIFTGATE_WEB_REASON "")
set(DRIFTGATE_WEB_REMEDY "")
set(DRIFTGATE_WEB_FOLDER ${CMAKE_SOURCE_DIR}/web)

# Looks for what the page is built from and with; sets the two where something is missing.
function(driftgate_look_for_web)
  if(NOT EXISTS ${DRIFTGATE_WEB_FOLDER}/package-lock.json)
    set(DRIFTGATE_WEB_REASON "there is no web/package-lock.json")
    set(DRIFTGATE_WEB_REMEDY "take the whole source tree")
    return(PROPAGATE DRIFTGATE_WEB_REASON DRIFTGATE_WEB_REMEDY)
  endif()
  find_program(DRIFTGATE_NODE NAMES node nodejs)
  find_program(DRIFTGATE_NPM npm)
  set(DRIFTGATE_WEB_REMEDY "install Node.js 18 or newer with npm (Debian 12: nodejs and npm)")
  if(NOT DRIFTGATE_NODE AND NOT DRIFTGATE_NPM)
    set(DRIFTGATE_WEB_REASON "neither node nor npm was found")
  elseif(NOT DRIFTGATE_NODE)
    set(DRIFTGATE_WEB_REASON "npm was found, but no node")
  elseif(NOT DRIFTGATE_NPM)
    set(DRIFTGATE_WEB_REASON "node was found, but no npm")
  else()
    execute_process(COMMAND ${DRIFTGATE_NODE} --version OUTPUT_VARIABLE version ERROR_QUIET)
    if(NOT version MATCHES "^v?([0-9][0-9.]*)")
      set(DRIFTGATE_WEB_REASON "node was found, but does not say its version")
    elseif(CMAKE_MATCH_1 VERSION_LESS 18)
      set(DRIFTGATE_WEB_REASON "Node.js ${CMAKE_MATCH_1} was found, and 18 or newer is needed")
    else()
      set(DRIFTGATE_WEB_REMEDY "")
    endif()
    set(DRIFTGATE_NODE_VERSION "${CMAKE_MATCH_1}")
  endif()
  return(PROPAGATE DRIFTGATE_WEB_REASON DRIFTGATE_WEB_REMEDY DRIFTGATE_NODE_VERSION)
endfunction()

# Installs the packages unless those of this lock file are there: npm writes node_modules/.package-lock.json last.
function(driftgate_install_web)
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
  set(log ${CMAKE_BINARY_DIR}/npm.log)
  execute_process(COMMAND ${DRIFTGATE_NPM} ci --ignore-scripts --no-audit --no-fund --fetch-retries=1
    WORKING_DIRECTORY ${DRIFTGATE_WEB_FOLDER} TIMEOUT 600 RESULT_VARIABLE code OUTPUT_FILE ${log} ERROR_FILE ${log})
  if(code EQUAL 0)
    if(EXISTS ${installed})
      file(TOUCH ${installed})
    endif()
    return()
  endif()
  execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/cmake/npm_reason.py ${log} "${code}"
    OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(said MATCHES "^([^\n]+)\n([^\n]+)$")
    set(DRIFTGATE_WEB_REASON "${CMAKE_MATCH_1}")
    set(DRIFTGATE_WEB_REMEDY "${CMAKE_MATCH_2}")
  else()
    set(DRIFTGATE_WEB_REASON "'npm ci' in web/ failed")
    set(DRIFTGATE_WEB_REMEDY "repair what npm.log in the build folder names")
  endif()
  return(PROPAGATE DRIFTGATE_WEB_REASON DRIFTGATE_WEB_REMEDY)
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

# Writes the C++ source `output` that stands in for the table, with the reason.
function(driftgate_write_no_files output)
  foreach(name IN ITEMS reason remedy)
    string(TOUPPER ${name} upper)
    string(REPLACE "\\" "\\\\" text "${DRIFTGATE_WEB_${upper}}")
    string(REPLACE "\"" "\\\"" ${name} "${text}")
  endforeach()
  configure_file(${CMAKE_SOURCE_DIR}/daemon/web/no_files.cpp.in ${output} @ONLY)
endfunction()

file(REMOVE ${CMAKE_BINARY_DIR}/page-missing.txt)
if(DRIFTGATE_WEB STREQUAL "AUTO" AND DRIFTGATE_SANITIZE)
  set(DRIFTGATE_WEB_REASON "built with DRIFTGATE_SANITIZE=${DRIFTGATE_SANITIZE}")
  message(STATUS "Page: off with sanitizers")
elseif(NOT DRIFTGATE_WEB)
  set(DRIFTGATE_WEB_REASON "built with DRIFTGATE_WEB=${DRIFTGATE_WEB}")
  message(STATUS "Page: off (DRIFTGATE_WEB=${DRIFTGATE_WEB})")
else()
  driftgate_look_for_web()
  if(NOT DRIFTGATE_WEB_REASON)
    driftgate_install_web()
  endif()
  if(NOT DRIFTGATE_WEB_REASON)
    set(DRIFTGATE_WEB_FOUND TRUE)
    message(STATUS "Page: on, Node.js ${DRIFTGATE_NODE_VERSION}")
  elseif(DRIFTGATE_WEB STREQUAL "AUTO")
    message(STATUS "Page: off, ${DRIFTGATE_WEB_REASON}")
    # A build folder without the program would have no page either way.
    if(NOT DEFINED DRIFTGATE_ONLY OR "daemon" IN_LIST DRIFTGATE_ONLY)
      file(WRITE ${CMAKE_BINARY_DIR}/page-missing.txt "${DRIFTGATE_WEB_REASON}\n${DRIFTGATE_WEB_REMEDY}\n")
    endif()
  else()
    message(FATAL_ERROR "DRIFTGATE_WEB=${DRIFTGATE_WEB}, but ${DRIFTGATE_WEB_REASON}. To repair it, ${DRIFTGATE_WEB_REMEDY}.")
  endif()
endif()
