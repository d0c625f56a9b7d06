#pragma once
// How the ranks of an attempt find each other: the TCPStore that rank 0 serves.
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/comm.h"

namespace gputrain {

// The attempt's key space on the store, after every rank has joined it. Throws Error(kPeerLost): store not reachable,
// or ranks missing after options.connect_timeout (named).
c10::intrusive_ptr<c10d::Store> join_store(const CommOptions& options);

// The numeric address of this host's interface that leads to `host`: 127.0.0.1 for loopback, `host` itself on its own
// machine. Throws Error(kEnvironment) when there is no route or no such host.
std::string local_address_towards(const std::string& host, int port);

}  // namespace gputrain
