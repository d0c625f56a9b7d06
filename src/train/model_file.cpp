#include "train/model_file.h"

#include <string>

#include "ckpt/xxh3.h"
#include "dist/agreement.h"
#include "util/error.h"

namespace gputrain {

std::string model_file_mark(FileSystem& fs, const ModelPlan& plan) {
  const std::string& path = !plan.torchscript.empty() ? plan.torchscript : plan.plugin;
  return path.empty() ? "" : std::to_string(fs.size(path)) + " bytes, XXH3 " + xxh3_of_file(fs, path);
}

void check_same_model_file(Comm& control, const std::string& mark, const ModelPlan& plan) {
  if (mark.empty() || control.world_size() == 1) return;
  const bool script = !plan.torchscript.empty();
  const std::string& path = script ? plan.torchscript : plan.plugin;
  const std::string difference = first_disagreement(control, {mark});
  if (difference.empty()) return;
  throw Error(ErrorKind::kData, path + " differs between the ranks: " + difference,
              script ? "model.torchscript" : "model.plugin", "copy the same file to every host");
}

}  // namespace gputrain
