# reckon_version.h: RECKON_VERSION and RECKON_COMMIT, and where data files are. Written at configure time and again by every
# build whose commit differs, so that a report names the code that made it.
set(RECKON_VERSION_DIR ${CMAKE_BINARY_DIR}/generated)
set(write_version ${CMAKE_COMMAND}
    -D SOURCE_DIR=${CMAKE_SOURCE_DIR} -D OUTPUT=${RECKON_VERSION_DIR}/reckon_version.h
    -D VERSION=${PROJECT_VERSION} -D DATA_DIR=${CMAKE_INSTALL_FULL_DATADIR}/reckon
    -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake)
execute_process(COMMAND ${write_version} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(reckon_version_header COMMAND ${write_version} BYPRODUCTS ${RECKON_VERSION_DIR}/reckon_version.h
                  VERBATIM)
include_directories(${RECKON_VERSION_DIR})
