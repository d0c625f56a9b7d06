# One static library per module, linked only to the modules that the layer picture in src/README.md allows.
#
# gputrain_module(NAME LAYER n [TORCH] DEPS other modules... LIBS external targets...)
# Sources are all src/NAME/**/*.cpp. The table is read by scripts/layers.py too: keep one call a module, on one line.
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)

file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/gen)
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/gen/gputrain_version.h @ONLY)

# Every runtime target compiles with the same flags, so one precompiled header (ATen, nn::Module, the STL) serves them all:
# 2-4 s a file instead of 8-13 s.
file(WRITE ${PROJECT_BINARY_DIR}/gen/pch_anchor.cpp "// Carries the runtime's precompiled header.\n")
add_library(gp_runtime_pch STATIC ${PROJECT_BINARY_DIR}/gen/pch_anchor.cpp)
target_link_libraries(gp_runtime_pch PUBLIC torch_cpu)
target_precompile_headers(gp_runtime_pch PRIVATE <ATen/ATen.h> <torch/nn/module.h> <torch/csrc/autograd/autograd.h>
                          <algorithm> <cstdint> <functional> <map> <memory> <optional> <string> <vector>)
target_compile_definitions(gp_runtime_pch PUBLIC GPUTRAIN_RUNTIME=1)

# The core half's: nlohmann's header alone costs 3 s.
add_library(gp_core_pch STATIC ${PROJECT_BINARY_DIR}/gen/pch_anchor.cpp)
target_link_libraries(gp_core_pch PUBLIC nlohmann_json::nlohmann_json Threads::Threads)
target_precompile_headers(gp_core_pch PRIVATE <nlohmann/json.hpp> <algorithm> <chrono> <cstdint> <functional> <map> <memory>
                          <optional> <string> <string_view> <variant> <vector>)

function(gputrain_use_runtime target)
  target_link_libraries(${target} PUBLIC torch_cpu)
  target_compile_definitions(${target} PUBLIC GPUTRAIN_RUNTIME=1)
  target_precompile_headers(${target} REUSE_FROM gp_runtime_pch)
  target_link_options(${target} PUBLIC -Wl,--no-as-needed)
endfunction()

function(gputrain_module name)
  cmake_parse_arguments(M "TORCH" "LAYER" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/src/dist/cuda/")
  if(NOT sources)
    return()
  endif()
  add_library(gp_${name} STATIC ${sources})
  target_include_directories(gp_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_BINARY_DIR}/gen)
  foreach(dep IN LISTS M_DEPS)
    target_link_libraries(gp_${name} PUBLIC gp_${dep})
  endforeach()
  target_link_libraries(gp_${name} PUBLIC ${M_LIBS} Threads::Threads)
  if(M_TORCH)
    gputrain_use_runtime(gp_${name})
  else()
    target_precompile_headers(gp_${name} REUSE_FROM gp_core_pch)
  endif()
  set_property(GLOBAL APPEND PROPERTY GPUTRAIN_MODULES ${name})
endfunction()

# The layer picture. Core half (no LibTorch):
gputrain_module(util    LAYER 0 LIBS spdlog::spdlog nlohmann_json::nlohmann_json)
gputrain_module(sys     LAYER 1 DEPS util LIBS ${CMAKE_DL_LIBS})
gputrain_module(spec    LAYER 1 DEPS util LIBS yaml-cpp)
gputrain_module(wire    LAYER 2 DEPS spec sys util)
gputrain_module(monitor LAYER 2 DEPS spec sys util)
gputrain_module(launch  LAYER 3 DEPS wire monitor spec sys util)
# Runtime half (LibTorch):
gputrain_module(dist    LAYER 3 TORCH DEPS sys util)
gputrain_module(data    LAYER 3 TORCH DEPS spec sys util LIBS ZLIB::ZLIB)
gputrain_module(model   LAYER 3 TORCH DEPS spec sys util)
gputrain_module(ckpt    LAYER 3 TORCH DEPS spec sys util LIBS xxhash)
gputrain_module(train   LAYER 4 TORCH DEPS dist data model ckpt monitor wire spec sys util)

if(TARGET gp_dist)
  target_include_directories(gp_dist SYSTEM PRIVATE ${GPUTRAIN_GLOO_INCLUDE})
endif()

# Composition roots: the only code that prints, parses flags or reads the environment.
file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cli/*.cpp)
if(cli_sources)
  add_executable(gputrain ${cli_sources})
  target_include_directories(gputrain PRIVATE ${PROJECT_BINARY_DIR}/gen)
  target_link_libraries(gputrain PRIVATE gp_launch gp_monitor gp_wire gp_spec gp_sys gp_util CLI11::CLI11)
  target_precompile_headers(gputrain PRIVATE <CLI/CLI.hpp> <nlohmann/json.hpp>)
endif()
file(GLOB worker_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/worker/*.cpp)
if(worker_sources AND TARGET gp_train)
  add_executable(gputrain-worker ${worker_sources})
  target_include_directories(gputrain-worker PRIVATE ${PROJECT_BINARY_DIR}/gen)
  target_link_libraries(gputrain-worker PRIVATE gp_train gp_wire)
  gputrain_use_runtime(gputrain-worker)
endif()

# NCCL and our CUDA code: loaded by a worker with dlopen when its device is a GPU. It links nothing of ours (the worker calls it
# through one table of functions, dist/backend_registry.h), and -z defs proves it.
file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dist/cuda/*.cpp)
if(GPUTRAIN_HAVE_CUDA_BUILD AND cuda_sources)
  find_library(GPUTRAIN_CUDART NAMES libcudart.so.13 PATHS ${GPUTRAIN_CUDA_INCLUDE}/../lib NO_DEFAULT_PATH REQUIRED)
  find_library(GPUTRAIN_NCCL NAMES libnccl.so.2 PATHS ${GPUTRAIN_NCCL_INCLUDE}/../lib NO_DEFAULT_PATH REQUIRED)
  add_library(gputrain_cuda SHARED ${cuda_sources})
  target_include_directories(gputrain_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(gputrain_cuda PRIVATE torch_cuda ${GPUTRAIN_CUDART} ${GPUTRAIN_NCCL})
  target_link_options(gputrain_cuda PRIVATE -Wl,-z,defs)
  set_target_properties(gputrain_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON)
endif()
