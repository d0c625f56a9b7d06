#pragma once
// Collectives between the ranks of one attempt. Back ends are files: comm_single.cpp (a world of one: every operation
// is the identity, so the loop has no `if (world > 1)`), comm_gloo.cpp, cuda/comm_nccl.cpp (in libgputrain_cuda.so).
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace c10d {
class ProcessGroup;
}

namespace gputrain {

class CudaBackend;  // dist/backend_registry.h

// A group of ranks that call the same operations in the same order. Used from one thread. A failed operation (peer
// gone, timeout) throws Error(kPeerLost); the group is unusable afterwards. Destroying such a group can block until its
// timeout (Gloo joins its threads): a worker leaves with _exit.
class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // In place, element-wise sum; the result is the same bits on every rank.
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;
  // Starts a sum; the returned function waits for it. At most one is in flight.
  virtual std::function<void()> start_all_reduce_sum(at::Tensor& tensor) = 0;
  virtual void broadcast(at::Tensor& tensor, int root) = 0;
  // Coalesced; tensors may have several dtypes.
  virtual void broadcast_all(std::vector<at::Tensor> tensors, int root) = 0;
  virtual std::string broadcast_bytes(const std::string& bytes,
                                      int root) = 0;  // length first; for resume state and plans
  virtual void barrier() = 0;
  // What c10d::Reducer wants; null in a world of one. Callers include <torch/csrc/distributed/c10d/ProcessGroup.hpp>.
  virtual c10::intrusive_ptr<c10d::ProcessGroup> process_group() = 0;
};

struct CommOptions {
  int rank = 0;
  int world_size = 1;
  std::string store_address;  // the TCPStore that rank 0 serves
  int store_port = 0;
  int store_listen_fd = -1;  // rank 0: the listening socket bound by its agent (masterListenFd)
  std::string key_prefix;    // "run id/attempt": keys of another attempt never meet
  std::chrono::milliseconds timeout{30 * 60 * 1000};
  std::chrono::milliseconds connect_timeout{60 * 1000};
  int device = -1;  // CUDA device index, -1 = CPU
  bool nccl = false;
  const CudaBackend* cuda = nullptr;  // the loaded CUDA library; needed when nccl is true
  bool group_of_one = false;          // real groups in a world of one too: checks of NCCL on a machine with one GPU
};

struct Comms {
  std::shared_ptr<Comm> control;    // CPU, always Gloo (or single): votes, metrics, state
  std::shared_ptr<Comm> gradients;  // Gloo or NCCL: parameters, buffers, gradients. A group of its own.
};

// Connects to the store and makes both groups; returns when every rank has. Gloo listens on the interface that leads to
// the store. Ignores SIGPIPE if nobody handles it (Gloo writes without MSG_NOSIGNAL, so a dead peer would kill this
// process). Throws Error(kPeerLost) when peers do not come within connect_timeout, naming the ranks that are missing,
// Error(kEnvironment) when the NCCL back end is wanted and not loaded (see dist/backend_registry.h).
Comms make_comms(const CommOptions& options);

}  // namespace gputrain
