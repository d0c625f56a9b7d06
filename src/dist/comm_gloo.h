#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/comm.h"

namespace gputrain {

// A Gloo back end whose ranks meet on `store`. Each has a network thread and `threads` threads that run collectives.
// Throws Error(kPeerLost) when the full mesh does not stand within options.connect_timeout.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const CommOptions& options, int threads);

}  // namespace gputrain
