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
find_package(Python3 REQUIRED COMPONENTS Interpreter)
# What is found may be a launcher that takes half a second to find the interpreter.
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE Python3_EXECUTABLE
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

add_library(driftgate_flags INTERFACE)
target_include_directories(driftgate_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(driftgate_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion
  # Sources that are compiled together would warn of each other's names.
  $<$<STREQUAL:${DRIFTGATE_UNITY},none>:-Wshadow> -Wnon-virtual-dtor -Woverloaded-virtual)
target_compile_definitions(driftgate_flags INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_HAS_CO_AWAIT
  # Frames of coroutines come from the allocator that has free lists by size, and more of them are kept: there are
  # about seven for each request.
  BOOST_ASIO_DISABLE_STD_ALIGNED_ALLOC BOOST_ASIO_DISABLE_BOOST_ALIGN BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE=16)
target_link_libraries(driftgate_flags INTERFACE Threads::Threads)
# AddressSanitizer and UBSan without the checks that double the time to compile and that AddressSanitizer, or a signal,
# makes up for.
set(DRIFTGATE_ADDRESS -fsanitize=address,undefined -fno-sanitize=alignment,null,object-size,return,vptr
  -fno-sanitize-recover=all -fno-omit-frame-pointer)
if(DRIFTGATE_SANITIZE STREQUAL "address")
  add_compile_options(${DRIFTGATE_ADDRESS})
  add_link_options(-fsanitize=address,undefined)
elseif(DRIFTGATE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -Wno-tsan -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

# Symbols for a debugger take a sixth of the time of a compilation, and nobody debugs a build of everything at once.
if(DRIFTGATE_UNITY STREQUAL "all" AND NOT DRIFTGATE_SANITIZE)
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:RelWithDebInfo>>:-g0>)
endif()

# Compiles sources of a target together, ten at most, where DRIFTGATE_UNITY asks for it: most of a compilation is the
# reading of headers. For builds of everything at once; who changes one file waits longer. Sources that match APART
# are compiled together only with each other, and those that match ALONE with none. CMake's own way (UNITY_BUILD) cannot
# keep apart what sources declare for themselves under the same name.
function(driftgate_unity target)
  cmake_parse_arguments(arg "" "APART;ALONE" "" ${ARGN})
  get_target_property(rest ${target} SOURCES)
  set(others "")
  foreach(source IN LISTS rest)
    # What is generated stands alone, also once it is there: its command is that of a source of the target.
    string(FIND "${source}" "${CMAKE_BINARY_DIR}/" generated)
    if(generated EQUAL 0 OR NOT source MATCHES "\\.cpp$")
      list(APPEND others ${source})
    endif()
  endforeach()
  list(REMOVE_ITEM rest ${others})
  if(arg_ALONE)
    set(alone ${rest})
    list(FILTER alone INCLUDE REGEX "${arg_ALONE}")
    list(FILTER rest EXCLUDE REGEX "${arg_ALONE}")
    list(APPEND others ${alone})
  endif()
  set(apart "")
  if(arg_APART)
    set(apart ${rest})
    list(FILTER apart INCLUDE REGEX "${arg_APART}")
    list(FILTER rest EXCLUDE REGEX "${arg_APART}")
  endif()
  foreach(set IN ITEMS apart rest)
    if(${set})
      execute_process(
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/unity_groups.py 10 ${CMAKE_CURRENT_BINARY_DIR}/unity/${target} ${set} ${${set}}
        WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE together COMMAND_ERROR_IS_FATAL ANY)
      list(APPEND others ${together})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${others}")
  # g++ 12 takes members of std::expected for uninitialised where it inlines more: it warns of them in sources by themselves.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-maybe-uninitialized)
endfunction()

# Code that costs more time in the compiler than at run time. The build that is handed out optimises it too.
function(driftgate_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-Og>)
endfunction()

# Sources under AddressSanitizer and UBSan in a build that has neither. DRIFTGATE_CHECKED lists what is checked so:
# `untrusted`, the sources of all libraries that parse what strangers send, with their tests and fuzzers, and any names of
# libraries, which are then checked whole. A program that links driftgate_NAME_checked before driftgate_NAME gets these
# sources checked, and everything else as users get it. A build of everything under sanitizers is DRIFTGATE_SANITIZE
# (scripts/sanitize).
set(DRIFTGATE_CHECKED "" CACHE STRING "What is also built under AddressSanitizer: untrusted, and names of libraries")
set(checked_options ${DRIFTGATE_ADDRESS} -Og -g1 -Wno-maybe-uninitialized)  # g++ 12 warns falsely of instrumented headers

function(driftgate_add_checked_library target like sources)
  add_library(${target} STATIC ${sources})
  target_compile_options(${target} PRIVATE ${checked_options} -fsanitize-coverage=trace-pc,trace-cmp)  # for the fuzzers
  target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:${like},COMPILE_DEFINITIONS>)
  target_link_libraries(${target} PRIVATE ${like} ${ARGN})
  target_link_libraries(${target} INTERFACE driftgate_coverage)
endfunction()

# driftgate_add_library(NAME [COLD|HOT] SOURCES ... LIBS ... PRIVATE_LIBS ... UNTRUSTED ...): target driftgate_NAME. COLD: no
# inner loop, no request of a user and no entry of the log waits for this code. HOT: it computes for so long that builds of
# everything at once optimise it as well. UNTRUSTED: the sources that match this regular expression parse what strangers
# send. ALONE: those that match are compiled alone.
function(driftgate_add_library name)
  cmake_parse_arguments(arg "COLD;HOT" "UNTRUSTED;ALONE" "SOURCES;LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(driftgate_${name} STATIC ${arg_SOURCES})
  if(arg_COLD OR (DRIFTGATE_UNITY STREQUAL "all" AND NOT arg_HOT))
    driftgate_compile_quickly(driftgate_${name})
  endif()
  target_link_libraries(driftgate_${name} PUBLIC driftgate_flags ${arg_LIBS} PRIVATE ${arg_PRIVATE_LIBS})
  if(DRIFTGATE_UNITY STREQUAL "all")
    driftgate_unity(driftgate_${name} APART "${arg_UNTRUSTED}" ALONE "${arg_ALONE}")
  endif()
  set(checked ${arg_SOURCES})
  if(name IN_LIST DRIFTGATE_CHECKED)
    list(FILTER checked EXCLUDE REGEX "(^|/)(kernel|product)_[a-z0-9]+\\.cpp$")  # gpu's loops take minutes
  elseif("untrusted" IN_LIST DRIFTGATE_CHECKED AND arg_UNTRUSTED)
    list(FILTER checked INCLUDE REGEX "${arg_UNTRUSTED}")
  else()
    return()
  endif()
  driftgate_add_checked_library(driftgate_${name}_checked driftgate_${name} "${checked}" ${arg_PRIVATE_LIBS})
  if(DRIFTGATE_UNITY STREQUAL "all")  # in the groups of the library that it is like, so that one object replaces another
    driftgate_unity(driftgate_${name}_checked APART "${arg_UNTRUSTED}" ALONE "${arg_ALONE}")
  endif()
endfunction()

# An executable of tests with doctest's main.
function(driftgate_add_test_program target sources)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE driftgate_doctest_main driftgate_flags ${ARGN})
  driftgate_compile_quickly(${target})
  if(NOT DRIFTGATE_UNITY STREQUAL "none")
    driftgate_unity(${target})
  endif()
endfunction()

# The same under AddressSanitizer.
function(driftgate_add_checked_test_program target sources)
  driftgate_add_test_program(${target} "${sources}" ${ARGN})
  target_compile_options(${target} PRIVATE ${checked_options})
  target_link_options(${target} PRIVATE -fsanitize=address,undefined)
endfunction()

# driftgate_add_tests(NAME SOURCES ... LIBS ... [LABELS ...] [UNTRUSTED ...]): one executable, one CTest test for each
# test case. The working directory is the source root. A test that prints "no-cuda-device" is reported as skipped.
# UNTRUSTED: the tests whose sources match this regular expression are run once under sanitizers, as part of
# driftgate_untrusted_tests (tests/untrusted), where DRIFTGATE_CHECKED has `untrusted`. Where it has NAME, there is also
# driftgate_NAME_tests_checked.
function(driftgate_add_tests name)
  cmake_parse_arguments(arg "" "UNTRUSTED" "SOURCES;LIBS;LABELS" ${ARGN})
  set(sources ${arg_SOURCES})
  if(name IN_LIST DRIFTGATE_CHECKED)
    driftgate_add_checked_test_program(driftgate_${name}_tests_checked "${arg_SOURCES}" driftgate_${name}_checked ${arg_LIBS})
    doctest_discover_tests(driftgate_${name}_tests_checked TEST_PREFIX "checked ${name}: " WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      PROPERTIES TIMEOUT 1200 SKIP_REGULAR_EXPRESSION "no-cuda-device" LABELS "checked;${name}")
    target_compile_definitions(driftgate_${name}_tests_checked PRIVATE $<TARGET_PROPERTY:driftgate_${name}_tests,COMPILE_DEFINITIONS>)
    target_include_directories(driftgate_${name}_tests_checked PRIVATE $<TARGET_PROPERTY:driftgate_${name}_tests,INCLUDE_DIRECTORIES>)
  endif()
  if("untrusted" IN_LIST DRIFTGATE_CHECKED AND arg_UNTRUSTED)
    set(untrusted ${sources})
    list(FILTER untrusted INCLUDE REGEX "${arg_UNTRUSTED}")
    set(tests ${untrusted})
    list(TRANSFORM untrusted PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_property(GLOBAL APPEND PROPERTY DRIFTGATE_UNTRUSTED_SOURCES ${untrusted})
    set_property(GLOBAL APPEND PROPERTY DRIFTGATE_UNTRUSTED_LIBS ${arg_LIBS})
    list(FILTER tests INCLUDE REGEX "_test\\.cpp$")  # what helps them is needed in both
    list(REMOVE_ITEM sources ${tests})
  endif()
  if(NOT sources)
    return()
  endif()
  driftgate_add_test_program(driftgate_${name}_tests "${sources}" ${arg_LIBS})
  if(NOT sources MATCHES "_test\\.cpp")
    set_target_properties(driftgate_${name}_tests PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  doctest_discover_tests(driftgate_${name}_tests
    TEST_PREFIX "${name}: "
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    PROPERTIES TIMEOUT 1200 SKIP_REGULAR_EXPRESSION "no-cuda-device" LABELS "${name};${arg_LABELS}")
endfunction()
