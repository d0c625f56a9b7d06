#pragma once
#include <chrono>
#include <functional>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace gputrain {

// Starts an element-wise sum of small contiguous CPU tensors: every rank sends its own to every other and adds all in
// rank order, so the result is the same bits everywhere. The returned function waits and writes into `tensor`.
//
// One network hop and no thread change, where Gloo's ring takes 2 (W - 1) hops through its worker threads: 64 bytes at
// 2, 3, 4 ranks in 0.09, 0.26, 0.45 ms against 0.24, 1.1, 4.7 ms (2 busy cores). And a rank waits for each peer
// directly, so it learns of a dead one at once instead of through its neighbour. Slower than the ring from some 64 KiB
// on.
// `timeout` is for each peer: Gloo's own default here would be the one its connections were made with.
std::function<void()> start_exchange_sum(c10d::Backend& backend, const at::Tensor& tensor,
                                         std::chrono::milliseconds timeout);

constexpr size_t kExchangeSumBytes = 8 << 10;

}  // namespace gputrain
