# Imported targets torch_cpu and c10 (and, with their files present, torch_cuda and c10_cuda) from a LibTorch tree.
#
# find_package(Torch) is not used: without a CUDA toolkit it is a fatal error, and with CMake 3.25 its architecture probe
# fails. A LibTorch prefix is looked for in this order:
#   1. GPUTRAIN_LIBTORCH (cache variable or environment): the folder that holds lib/libtorch_cpu.so
#   2. CMAKE_PREFIX_PATH entries: PREFIX, PREFIX/torch, PREFIX/libtorch
#   3. the cache filled by scripts/quickstart.sh: ${XDG_CACHE_HOME:-~/.cache}/gputrain/libtorch-<version>/torch
set(GPUTRAIN_TORCH_VERSION 2.11 CACHE INTERNAL "The LibTorch minor version whose c10d::Reducer constructor we call")
file(STRINGS ${PROJECT_SOURCE_DIR}/scripts/versions.env _gp_versions REGEX "^LIBTORCH_VERSION=")
string(REGEX REPLACE "^LIBTORCH_VERSION=" "" _gp_torch_pin "${_gp_versions}")

set(_gp_cache "$ENV{XDG_CACHE_HOME}")
if(NOT _gp_cache)
  set(_gp_cache "$ENV{HOME}/.cache")
endif()
set(_gp_candidates ${GPUTRAIN_LIBTORCH} $ENV{GPUTRAIN_LIBTORCH})
foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
  list(APPEND _gp_candidates ${prefix} ${prefix}/torch ${prefix}/libtorch)
endforeach()
list(APPEND _gp_candidates ${_gp_cache}/gputrain/libtorch-${_gp_torch_pin}/torch)

set(GPUTRAIN_TORCH_ROOT "")
foreach(candidate IN LISTS _gp_candidates)
  if(EXISTS ${candidate}/lib/libtorch_cpu.so)
    set(GPUTRAIN_TORCH_ROOT ${candidate})
    break()
  endif()
endforeach()
if(NOT GPUTRAIN_TORCH_ROOT)
  message(FATAL_ERROR "LibTorch ${_gp_torch_pin} not found. Run ./scripts/quickstart.sh --no-train (it fetches the pinned "
                      "wheel), or pass -DCMAKE_PREFIX_PATH=/path/to/libtorch. Looked in: ${_gp_candidates}")
endif()

file(STRINGS ${GPUTRAIN_TORCH_ROOT}/include/torch/headeronly/version.h _gp_version_lines REGEX "TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" _gp_found "${_gp_version_lines}")
if(NOT _gp_found MATCHES "^${GPUTRAIN_TORCH_VERSION}\\.")
  message(FATAL_ERROR "LibTorch at ${GPUTRAIN_TORCH_ROOT} is ${_gp_found}; exactly ${GPUTRAIN_TORCH_VERSION}.x is supported "
                      "(c10d::Reducer is not a stable API). Run ./scripts/quickstart.sh --no-train to fetch the pinned one.")
endif()
message(STATUS "LibTorch ${_gp_found}: ${GPUTRAIN_TORCH_ROOT}")

# Wheels keep libcudart and libcupti (needed by libtorch_cpu itself) in ../nvidia/cu13/lib; torch's own RUNPATH finds them.
add_library(c10 SHARED IMPORTED)
set_target_properties(c10 PROPERTIES IMPORTED_LOCATION ${GPUTRAIN_TORCH_ROOT}/lib/libc10.so)
add_library(torch_cpu SHARED IMPORTED)
set_target_properties(torch_cpu PROPERTIES IMPORTED_LOCATION ${GPUTRAIN_TORCH_ROOT}/lib/libtorch_cpu.so)
target_include_directories(torch_cpu SYSTEM INTERFACE ${GPUTRAIN_TORCH_ROOT}/include
                           ${GPUTRAIN_TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(torch_cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
target_link_options(torch_cpu INTERFACE -Wl,--allow-shlib-undefined)
target_link_libraries(torch_cpu INTERFACE c10)

# The gloo headers are missing from the wheel; Debian's libgloo-dev headers fit its symbols. Its library is never linked.
find_path(GPUTRAIN_GLOO_INCLUDE gloo/rendezvous/store.h)
if(NOT GPUTRAIN_GLOO_INCLUDE)
  message(FATAL_ERROR "gloo headers not found: apt-get install libgloo-dev (headers only; its library is not linked)")
endif()

set(GPUTRAIN_CUDA_INCLUDES "")
find_path(GPUTRAIN_CUDA_INCLUDE cuda_runtime_api.h PATHS ${GPUTRAIN_TORCH_ROOT}/../nvidia/cu13/include NO_DEFAULT_PATH)
find_path(GPUTRAIN_NCCL_INCLUDE nccl.h PATHS ${GPUTRAIN_TORCH_ROOT}/../nvidia/nccl/include NO_DEFAULT_PATH)
set(GPUTRAIN_HAVE_CUDA_BUILD OFF)
if(NOT GPUTRAIN_CUDA STREQUAL "OFF" AND GPUTRAIN_CUDA_INCLUDE AND GPUTRAIN_NCCL_INCLUDE
   AND EXISTS ${GPUTRAIN_TORCH_ROOT}/lib/libtorch_cuda.so)
  set(GPUTRAIN_HAVE_CUDA_BUILD ON)
  add_library(c10_cuda SHARED IMPORTED)
  set_target_properties(c10_cuda PROPERTIES IMPORTED_LOCATION ${GPUTRAIN_TORCH_ROOT}/lib/libc10_cuda.so)
  add_library(torch_cuda SHARED IMPORTED)
  set_target_properties(torch_cuda PROPERTIES IMPORTED_LOCATION ${GPUTRAIN_TORCH_ROOT}/lib/libtorch_cuda.so)
  target_include_directories(torch_cuda SYSTEM INTERFACE ${GPUTRAIN_CUDA_INCLUDE} ${GPUTRAIN_NCCL_INCLUDE})
  target_compile_definitions(torch_cuda INTERFACE USE_C10D_NCCL)
  target_link_libraries(torch_cuda INTERFACE torch_cpu c10_cuda)
elseif(GPUTRAIN_CUDA STREQUAL "ON")
  message(FATAL_ERROR "GPUTRAIN_CUDA=ON needs the wheel's CUDA and NCCL headers (scripts/test.sh fetches them) and libtorch_cuda.so")
endif()
message(STATUS "CUDA back end: ${GPUTRAIN_HAVE_CUDA_BUILD}")
