#include "train/resume.h"

#include <utility>

#include "dist/reducer.h"
#include "util/error.h"

namespace gputrain {
namespace {

// Runs `body` on rank 0 and gives its JSON to every rank. A failure must not leave the others waiting.
Json on_rank_0(Comm& control, const std::function<Json()>& body) {
  std::exception_ptr failure;
  Json result;
  if (control.rank() == 0) {
    try {
      result["value"] = body();
    } catch (const Error& error) {
      failure = std::current_exception();
      result = {{"error", error.message}};
    } catch (const std::exception& error) {
      failure = std::current_exception();
      result = {{"error", error.what()}};
    }
  }
  const Json shared = parse_json(control.broadcast_bytes(dump_line(result), 0), "rank 0");
  if (failure) std::rethrow_exception(failure);
  if (shared.contains("error")) {
    throw Error(ErrorKind::kPeerLost, "rank 0 cannot go on: " + shared.at("error").get<std::string>());
  }
  return shared.at("value");
}

// CPU tensors travel over Gloo, those of a GPU over the gradients' group.
void broadcast_tensors(const Comms& comms, const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> host, device;
  for (const at::Tensor& tensor : tensors) (tensor.is_cpu() ? host : device).push_back(tensor);
  if (!host.empty()) comms.control->broadcast_all(host, 0);
  if (!device.empty()) comms.gradients->broadcast_all(device, 0);
}

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

Json rejected_of(const std::vector<Rejected>& rejected) {
  Json list = Json::array();
  for (const Rejected& one : rejected) list.push_back({{"checkpoint", one.path}, {"why", one.why}});
  return list;
}

// Rank 0's part: {path, rejected, state, begun}, the state null when training starts from the beginning.
Json load_and_restore(TrainState& state, const StateStamp& now, const std::function<ResumeChoice()>& load,
                      const std::function<std::vector<std::string>()>& begin) {
  const ResumeChoice choice = load();
  Json found{{"path", ""}, {"rejected", rejected_of(choice.rejected)}, {"state", nullptr}, {"begun", Json::array()}};
  if (!choice.checkpoint) {
    if (begin) found["begun"] = begin();
    return found;
  }
  const LoadedCheckpoint& checkpoint = *choice.checkpoint;
  check_same_run(parse_train_state(checkpoint.state, checkpoint.path).stamp, now, checkpoint.path);
  restore(state, checkpoint);
  found["path"] = checkpoint.path;
  found["state"] = checkpoint.state;
  return found;
}

}  // namespace

Resumed resume(const Comms& comms, TrainState& state, const StateStamp& now, const std::function<ResumeChoice()>& load,
               const std::function<std::vector<std::string>()>& begin) {
  const Json found = on_rank_0(*comms.control, [&] { return load_and_restore(state, now, load, begin); });
  Resumed resumed;
  resumed.path = found.at("path").get<std::string>();
  resumed.rejected = found.at("rejected");
  resumed.begun = found.at("begun").get<std::vector<std::string>>();
  if (!found.at("state").is_null()) {
    ParsedState parsed = parse_train_state(found.at("state"), resumed.path);
    state.counters = parsed.counters;
    if (parsed.stamp.best_of != now.best_of) state.counters.best.reset();
    if (parsed.stamp.stop_of != now.stop_of) state.counters.stop_best.reset(), state.counters.stale_evaluations = 0;
    if (state.scaler.enabled()) state.scaler.load(parsed.scaler);
    resumed.saved = std::move(parsed.stamp);
  }
  broadcast_model(*comms.gradients, model_tensors(*state.model));
  if (state.ema && !resumed.saved) state.ema->reset();
  broadcast_tensors(comms, tensors_of(state.optimizer->state()));
  if (state.ema) broadcast_tensors(comms, tensors_of(state.ema->state()));
  return resumed;
}

LoadedModel load_model(const Comms& comms, const Model& model, Ema* ema,
                       const std::function<LoadedCheckpoint()>& load) {
  const Json found = on_rank_0(*comms.control, [&] {
    const LoadedCheckpoint checkpoint = load();
    const bool average = restore_model(model, ema, checkpoint);
    return Json{{"path", checkpoint.path}, {"step", checkpoint.step}, {"average", average}};
  });
  broadcast_model(*comms.gradients, model_tensors(model));
  if (ema != nullptr) broadcast_tensors(comms, tensors_of(ema->state()));
  return {found.at("path").get<std::string>(), found.at("step").get<int64_t>(), found.at("average").get<bool>()};
}

}  // namespace gputrain
