# Flags and helpers that every folder shares.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# -g1 keeps line numbers in stack traces at a fraction of the size of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
# What is handed out: the same code without symbols. Assertions stay.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
add_link_options($<$<CONFIG:Release>:-s>)

# Debian's folder for libraries, whatever the prefix: its linker also looks below /usr/local.
if(CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "Folder of libraries below the prefix")
endif()

option(DRIFTGATE_WERROR "Treat warnings as errors" OFF)
find_program(DRIFTGATE_CCACHE ccache)
set(launcher)
if(DRIFTGATE_WERROR)
  list(APPEND launcher ${CMAKE_CURRENT_LIST_DIR}/fail_on_warnings)
endif()
if(DRIFTGATE_CCACHE)
  list(APPEND launcher ${DRIFTGATE_CCACHE})
endif()
if(launcher)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()
find_program(DRIFTGATE_MOLD mold)
if(DRIFTGATE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
find_package(Threads REQUIRED)

add_library(driftgate_flags INTERFACE)
target_include_directories(driftgate_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(driftgate_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion
  # Sources that are compiled together would warn of each other's names.
  $<IF:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,-Wno-subobject-linkage,-Wshadow> -Wnon-virtual-dtor -Woverloaded-virtual)
target_compile_definitions(driftgate_flags INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_HAS_CO_AWAIT
  # Frames of coroutines come from the allocator that has free lists by size, and more of them are kept: there are
  # about seven for each request.
  BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC BOOST_ASIO_DISABLE_BOOST_ALIGN BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE=16)
target_link_libraries(driftgate_flags INTERFACE Threads::Threads)
if(DRIFTGATE_SANITIZE STREQUAL "address")
  # Without the checks that double the time to compile and that AddressSanitizer, or a signal, makes up for.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=alignment,null,object-size,return,vptr
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(DRIFTGATE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -Wno-tsan -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

# Symbols for a debugger take a sixth of the time of a compilation, and nobody debugs a build of everything at once.
if(DRIFTGATE_UNITY STREQUAL "all" AND NOT DRIFTGATE_SANITIZE)
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:RelWithDebInfo>>:-g0>)
endif()

# Compiles sources of a target together, ten at most, where DRIFTGATE_UNITY asks for it: most of a compilation
# is the reading of headers. For builds of everything at once; who changes one file waits longer.
function(driftgate_unity target sources)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  execute_process(
    COMMAND python3 ${CMAKE_SOURCE_DIR}/cmake/unity_groups.py 10 ${sources}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE groups COMMAND_ERROR_IS_FATAL ANY)
  foreach(source group IN ZIP_LISTS sources groups)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP group_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Code that costs more time in the compiler than at run time. The build that is handed out optimises it too.
function(driftgate_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-Og>)
endfunction()

# driftgate_add_library(NAME [COLD] SOURCES ... LIBS ... PRIVATE_LIBS ...): target driftgate_NAME. COLD: no inner
# loop, no request of a user and no entry of the log waits for this code.
function(driftgate_add_library name)
  cmake_parse_arguments(arg "COLD" "" "SOURCES;LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(driftgate_${name} STATIC ${arg_SOURCES})
  if(arg_COLD)
    driftgate_compile_quickly(driftgate_${name})
  endif()
  target_link_libraries(driftgate_${name} PUBLIC driftgate_flags ${arg_LIBS} PRIVATE ${arg_PRIVATE_LIBS})
  if(DRIFTGATE_UNITY STREQUAL "all")
    driftgate_unity(driftgate_${name} "${arg_SOURCES}")
  endif()
endfunction()

# driftgate_add_tests(NAME SOURCES ... LIBS ... [LABELS ...]): one executable with doctest's
# main, one CTest test for each test case. The working directory is the source root. A test that prints
# "no-cuda-device" is reported as skipped.
function(driftgate_add_tests name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(driftgate_${name}_tests ${arg_SOURCES})
  target_link_libraries(driftgate_${name}_tests PRIVATE driftgate_doctest_main driftgate_flags ${arg_LIBS})
  driftgate_compile_quickly(driftgate_${name}_tests)
  if(NOT DRIFTGATE_UNITY STREQUAL "none")
    driftgate_unity(driftgate_${name}_tests "${arg_SOURCES}")
  endif()
  if(name IN_LIST DRIFTGATE_TESTS_ELSEWHERE)
    set_target_properties(driftgate_${name}_tests PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set(labels ${name} ${arg_LABELS})
  doctest_discover_tests(driftgate_${name}_tests
    TEST_PREFIX "${name}: "
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    PROPERTIES TIMEOUT 1200 SKIP_REGULAR_EXPRESSION "no-cuda-device" LABELS "${labels}")
endfunction()
