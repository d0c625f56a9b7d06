#pragma once
// Every name that a spec may use (models, transforms, optimizers, schedules, metrics, data formats), with typed
// arguments and properties. The runtime binds factories to these names; a test fails on either side's surplus.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "util/json.h"

namespace gputrain {

enum class ArgType {
  kInt,
  kFloat,
  kBool,
  kString,
  kIntList,
  kFloatList,
  kPath,
  kLength,  // 500 steps, 1 epoch, 5%
  kLengthList,
  kChoice,  // one of `words`
  kArray    // {path, shape, dtype, offset}
};

struct CatalogArg {
  std::string name;
  ArgType type;
  std::optional<Json> fallback = {};            // nullopt: required
  std::optional<double> least = {}, most = {};  // range of numbers (of list elements); inclusive unless `above`
  bool above = false;                           // least is exclusive
  std::string help = {};
  bool below = false;                   // most is exclusive
  int length = 0;                       // lists: required number of elements; 0 = any but none
  std::vector<std::string> words = {};  // accepted besides (kChoice: only these)
  int64_t multiple_of = 1;              // kInt
};

enum class CatalogKind { kModel, kTransform, kOptimizer, kSchedule, kMetric, kFormat };

// What a model makes of n samples, and so which tasks it can learn.
enum class ModelOutput {
  kVector,  // [n, classes]: classification, regression
  kTokens,  // [n, length, classes] from integers [n, length]: language_model
  kMask     // [n, classes, height, width] or with depth: segmentation
};

struct CatalogEntry {
  CatalogKind kind;
  std::string name;
  std::string help;
  std::vector<CatalogArg> args = {};
  bool has_batch_norm = false;                // models: buffers that depend on the split
  bool has_dropout = false;                   // models: randomness by (seed, rank, step)
  ModelOutput output = ModelOutput::kVector;  // models
  bool deterministic_on_gpus = true;          // models: every kernel has a deterministic form
  bool larger_is_better = true;               // metrics
  std::vector<std::string> tasks = {};        // metrics: those that give it
  std::vector<int64_t> sample_shape =
      {};  // models: shape of one synthetic input sample with default args ({} = from args)
};

std::span<const CatalogEntry> catalog();
const CatalogEntry* find_entry(CatalogKind kind, std::string_view name);  // nullptr when there is none
std::vector<std::string> names_of(CatalogKind kind);
std::string_view to_string(CatalogKind kind);  // "model", "transform", ...

// Element types of raw arrays, by PyTorch's names: "uint8", ..., "float64".
std::span<const std::string> array_dtypes();
bool is_integer_dtype(std::string_view dtype);
// Elements of an array's shape; nullopt when a dimension is below 1 or the product passes 2^48.
std::optional<int64_t> element_count(const std::vector<int64_t>& shape);

}  // namespace gputrain
