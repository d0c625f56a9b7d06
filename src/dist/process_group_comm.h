#pragma once
// The Comm over a c10d process group, whatever its back end.
#include <memory>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "dist/comm.h"

namespace gputrain {

// Wraps one back end into the ProcessGroup that c10d::Reducer wants. `device` is where the back end's tensors live.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Backend>& backend,
                                                          c10d::ProcessGroup::BackendType type, c10::DeviceType device);

// `timeout` is that of the back end. Tensors that are not contiguous or not on `device` travel as a copy.
std::shared_ptr<Comm> make_process_group_comm(c10::intrusive_ptr<c10d::ProcessGroup> group, at::Device device,
                                              std::chrono::milliseconds timeout);

}  // namespace gputrain
