# Programs of bench/engine.py: `ninja bench`. Not in `all`: no test needs them, and torch/optim's headers are slow.
add_custom_target(bench)

function(gputrain_bench name)
  add_executable(bench_${name} EXCLUDE_FROM_ALL ${ARGN})
  target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR}/bench)
  target_link_libraries(bench_${name} PRIVATE gp_train gp_wire)
  gputrain_use_runtime(bench_${name})
  add_dependencies(bench bench_${name})
endfunction()

if(TARGET gp_train AND worker_sources)
  # What a rank is made of, without its main().
  set(rank_sources ${worker_sources})
  list(FILTER rank_sources EXCLUDE REGEX "/main\\.cpp$")
  gputrain_bench(loop ${PROJECT_SOURCE_DIR}/bench/loop_overhead.cpp ${PROJECT_SOURCE_DIR}/bench/bare_loop.cpp ${rank_sources})
  gputrain_bench(optimizer ${PROJECT_SOURCE_DIR}/bench/optimizer_step.cpp)
endif()
