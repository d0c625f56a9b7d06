#include "train/trace.h"

#include <cstdio>
#include <cstring>
#include <fstream>

#include "ckpt/safetensors.h"
#include "sys/fs.h"
#include "util/error.h"
#include "util/random.h"

namespace gputrain {

std::string hash_of(const std::vector<at::Tensor>& tensors) {
  uint64_t hash = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
    const char* bytes = static_cast<const char*>(host.const_data_ptr());
    const size_t size = host.nbytes();
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + at, std::min(sizeof(word), size - at));
      hash = mix64(hash ^ word);
    }
    hash = mix64(hash ^ size);
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

Trace::Trace(const std::string& directory, int attempt, int rank) {
  real_file_system().make_directories(directory);
  stem_ = directory + "/attempt-" + std::to_string(attempt) + "-rank-" + std::to_string(rank);
}

void Trace::step(const TracedStep& step, const std::vector<at::Tensor>& parameters) {
  Json line;
  line["step"] = step.step;
  line["ids"] = step.ids;
  line["all_reduces"] = step.all_reduces;
  line["loss"] = json_number(step.loss);
  line["parameters_hash"] = hash_of(parameters);
  std::ofstream file(stem_ + ".jsonl", std::ios::app);
  file << dump_line(line) << "\n" << std::flush;
  if (!file) throw Error(ErrorKind::kOutput, "cannot write the trace", stem_ + ".jsonl");
}

void Trace::gradients(const TrainState& state, int64_t step) {
  NamedTensors gradients;
  for (const auto& [name, parameter] : named_parameters_of(*state.model))
    gradients.emplace_back(name, parameter.grad());
  const SafetensorsPlan plan = plan_safetensors(gradients);
  const std::string path = stem_ + ".gradients-" + std::to_string(step) + ".safetensors";
  real_file_system().remove_all(path);
  const auto file = real_file_system().create(path);
  write_safetensors(*file, plan);
  file->close();
}

}  // namespace gputrain
