#include "dist/bucket_layout.h"

#include <algorithm>

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "util/error.h"

namespace gputrain {
namespace {

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorKind::kCheckpoint, "the saved bucket layout does not fit the model: " + message, "",
              "it belongs to a run with another model");
}

size_t parameter_index(const Json& json, size_t parameter_count) {
  if (!json.is_number_integer() || json.get<int64_t>() < 0 || json.get<uint64_t>() >= parameter_count) {
    reject(dump_line(json) + " is not an index of " + std::to_string(parameter_count) + " parameters");
  }
  return json.get<size_t>();
}

std::vector<size_t> bucket_from_json(const Json& json, const std::vector<at::Tensor>& parameters) {
  if (!json.is_array() || json.empty()) reject("a bucket is not a list of parameters: " + dump_line(json));
  std::vector<size_t> bucket;
  for (const auto& item : json) {
    bucket.push_back(parameter_index(item, parameters.size()));
    const at::Tensor &first = parameters[bucket.front()], &added = parameters[bucket.back()];
    if (added.scalar_type() != first.scalar_type() || added.device() != first.device()) {
      reject("bucket " + dump_line(json) + " mixes dtypes or devices");
    }
  }
  return bucket;
}

}  // namespace

BucketLayout compute_layout(const std::vector<at::Tensor>& parameters, const std::vector<size_t>& limits) {
  BucketLayout layout = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, limits));
  std::reverse(layout.begin(), layout.end());
  return layout;
}

Json layout_to_json(const BucketLayout& layout) {
  Json json = Json::array();
  for (const auto& bucket : layout) json.push_back(Json(bucket));
  return json;
}

BucketLayout layout_from_json(const Json& json, const std::vector<at::Tensor>& parameters) {
  if (!json.is_array()) reject("not a list of buckets: " + dump_line(json));
  BucketLayout layout;
  std::vector<int> seen(parameters.size(), 0);
  for (const auto& bucket : json) {
    layout.push_back(bucket_from_json(bucket, parameters));
    for (const size_t index : layout.back()) ++seen[index];
  }
  const auto wrong = std::find_if(seen.begin(), seen.end(), [](int count) { return count != 1; });
  if (wrong != seen.end()) {
    reject("parameter " + std::to_string(wrong - seen.begin()) + (*wrong == 0 ? " is missing" : " occurs twice"));
  }
  return layout;
}

}  // namespace gputrain
