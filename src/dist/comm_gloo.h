#pragma once
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/comm.h"

namespace gloo::transport {
class Device;
}

namespace gputrain {

// Where this rank listens, with the network thread of every back end made on it. One for all: a thread for each wakes
// twice as often (on 2 busy cores 0.4 of 3.6 ms of system time a step).
struct GlooDevice {
  std::string address;  // of the interface on the route to the store
  std::shared_ptr<::gloo::transport::Device> device;
};
GlooDevice make_gloo_device(const CommOptions& options);

// A Gloo back end whose ranks meet on `store`, with `threads` threads that run collectives.
// Throws Error(kPeerLost) when the full mesh does not stand within options.connect_timeout.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const CommOptions& options, const GlooDevice& device, int threads);

}  // namespace gputrain
