# find_package(gputrain CONFIG): the imported target gputrain::plugin, which has all that a plug-in of include/gputrain/plugin.h
# needs. Works from the source tree (this folder) and from an installed one (lib/cmake/gputrain).
#
# LibTorch is looked for where gputrain's own build does: GPUTRAIN_LIBTORCH (the folder that holds lib/libtorch_cpu.so),
# CMAKE_PREFIX_PATH, the cache of scripts/quickstart.sh. It must be the version that gputrain-worker runs with.
foreach(up .. ../../.. ../../../..)
  set(candidate ${CMAKE_CURRENT_LIST_DIR}/${up}/include)
  if(EXISTS ${candidate}/gputrain/plugin.h)
    get_filename_component(GPUTRAIN_PLUGIN_INCLUDE ${candidate} ABSOLUTE)
    break()
  endif()
endforeach()

set(_gp_cache "$ENV{XDG_CACHE_HOME}")
if(NOT _gp_cache)
  set(_gp_cache "$ENV{HOME}/.cache")
endif()
file(GLOB _gp_cached LIST_DIRECTORIES true ${_gp_cache}/gputrain/libtorch-*/torch)
set(_gp_candidates ${GPUTRAIN_LIBTORCH} $ENV{GPUTRAIN_LIBTORCH})
foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
  list(APPEND _gp_candidates ${prefix} ${prefix}/torch ${prefix}/libtorch)
endforeach()
list(APPEND _gp_candidates ${_gp_cached})
set(_gp_torch "")
foreach(candidate IN LISTS _gp_candidates)
  if(EXISTS ${candidate}/lib/libtorch_cpu.so)
    set(_gp_torch ${candidate})
    break()
  endif()
endforeach()
if(NOT _gp_torch OR NOT GPUTRAIN_PLUGIN_INCLUDE)
  set(gputrain_FOUND FALSE)
  set(gputrain_NOT_FOUND_MESSAGE "LibTorch not found: run scripts/quickstart.sh --no-train, or pass -DGPUTRAIN_LIBTORCH=DIR (the "
      "folder that holds lib/libtorch_cpu.so). Looked in: ${_gp_candidates}")
  return()
endif()
if(NOT gputrain_FIND_QUIETLY)
  message(STATUS "gputrain plug-in: header in ${GPUTRAIN_PLUGIN_INCLUDE}, LibTorch in ${_gp_torch}")
endif()

if(NOT TARGET gputrain::plugin)
  add_library(gputrain::plugin INTERFACE IMPORTED)
  target_include_directories(gputrain::plugin INTERFACE ${GPUTRAIN_PLUGIN_INCLUDE})
  target_include_directories(gputrain::plugin SYSTEM INTERFACE ${_gp_torch}/include ${_gp_torch}/include/torch/csrc/api/include)
  # Linked, so that a missing symbol is an error here; at run time the worker's own copies are used.
  target_link_libraries(gputrain::plugin INTERFACE ${_gp_torch}/lib/libtorch_cpu.so ${_gp_torch}/lib/libc10.so)
  target_link_options(gputrain::plugin INTERFACE -Wl,-z,defs -Wl,--allow-shlib-undefined)
  target_compile_features(gputrain::plugin INTERFACE cxx_std_17)
endif()
