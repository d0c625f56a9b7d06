#include "dist/comm_gloo.h"

#include <csignal>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "dist/collective_error.h"
#include "dist/rendezvous.h"
#include "util/error.h"

namespace gputrain {
namespace {

// A handler that somebody set stays: it survives a write to a dead peer just as well.
void ignore_default_sigpipe() {
  struct sigaction current {};
  ::sigaction(SIGPIPE, nullptr, &current);
  if (current.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

GlooDevice make_gloo_device(const CommOptions& options) {
  const std::string address = local_address_towards(options.store_address, options.store_port);
  return {address, c10d::ProcessGroupGloo::createDeviceForHostname(address)};
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const CommOptions& options, const GlooDevice& device, int threads) {
  ignore_default_sigpipe();
  auto gloo = c10d::ProcessGroupGloo::Options::create(options.connect_timeout);
  gloo->devices.push_back(device.device);
  gloo->threads = threads;
  try {
    auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world_size, gloo);
    backend->setTimeout(options.timeout);
    return backend;
  } catch (const c10::Error& error) {  // a failed mesh is a plain c10::Error, not a DistError
    throw Error(ErrorKind::kPeerLost, short_reason(error.what_without_backtrace()), device.address,
                "every rank must reach every other rank's interface " + device.address + " (or its like) on any port");
  }
}

}  // namespace gputrain
