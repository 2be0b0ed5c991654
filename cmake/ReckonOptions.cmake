# Compiler flags of every target: optimisation, hardening, sanitizers, coverage, link-time optimisation.
#
# Results are the same bytes on every machine: no -march, no -ffast-math, and no contraction of a*b+c into one rounding.
include(CheckIPOSupported)

option(RECKON_SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer; any report ends the program" OFF)
option(RECKON_FUZZ "fuzz targets for libFuzzer (clang), sanitized; the rest of the tests is left out" OFF)
option(RECKON_COVERAGE "count executed lines for gcov" OFF)
option(RECKON_LTO "link-time optimisation of the reckon binary (GCC; off with sanitizers and coverage)" ON)
option(RECKON_WERROR "warnings are errors" OFF)
set(RECKON_TEST_TIME_SCALE 1 CACHE STRING "the tests' time limits are this many times as long (valgrind)")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "RelWithDebInfo (-O3 -g) or Debug" FORCE)
endif()
# No -DNDEBUG: SIM_ASSERT stays on in every build.
if(RECKON_SANITIZE)
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g")
else()
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g")
endif()
set(CMAKE_C_FLAGS_RELEASE "-O3")

add_compile_options(-ffp-contract=off -fno-math-errno)
add_compile_options(-fstack-protector-strong -Wformat -Wformat-security)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-fstack-clash-protection -fcf-protection)
endif()
add_compile_options(-fPIE) # not -fPIC, which forbids inlining of public functions
add_link_options(-pie LINKER:-z,relro,-z,now,-z,noexecstack)
if(RECKON_WERROR)
  add_compile_options(-Werror)
endif()

if(RECKON_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  add_compile_definitions(RECKON_SANITIZED=1) # tests of host speed shrink their work by it; no result depends on it
elseif(CMAKE_BUILD_TYPE MATCHES "^Rel")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2) # needs optimisation, and hides errors from ASan
endif()
if(RECKON_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(RECKON_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

set(RECKON_LTO_ACTIVE OFF)
if(RECKON_LTO AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE MATCHES "^Rel"
   AND NOT RECKON_SANITIZE AND NOT RECKON_COVERAGE)
  check_ipo_supported(RESULT RECKON_LTO_ACTIVE OUTPUT why_not LANGUAGES C)
  if(NOT RECKON_LTO_ACTIVE)
    message(STATUS "link-time optimisation not available: ${why_not}")
  endif()
endif()

# Objects of an archive: both forms, so that only what asks for it pays for link-time optimisation.
function(reckon_archive_options target)
  if(RECKON_LTO_ACTIVE)
    target_compile_options(${target} PRIVATE -flto=auto -ffat-lto-objects)
  endif()
endfunction()
function(reckon_link_time_optimise target)
  if(RECKON_LTO_ACTIVE)
    target_compile_options(${target} PRIVATE -flto=auto)
    target_link_options(${target} PRIVATE -flto=auto -O3)
  endif()
endfunction()
function(reckon_link_plain target)
  if(RECKON_LTO_ACTIVE)
    target_link_options(${target} PRIVATE -fno-lto)
  endif()
endfunction()
