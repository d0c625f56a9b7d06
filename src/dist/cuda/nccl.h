#pragma once
#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace gputrain {

// NCCL over one GPU a rank. The communicator itself is made by the first collective, through `store`.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                    int world_size, int device, std::chrono::milliseconds timeout);

}  // namespace gputrain
