#pragma once
// The fused form of a list of transforms: raw sample -> row of a batch in one pass, allocating nothing.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/image_view.h"
#include "util/random.h"

namespace gputrain {

struct SampleSpec {
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
  int64_t elements() const;
  bool operator==(const SampleSpec&) const = default;
};
std::string describe(const SampleSpec& spec);  // "uint8 [1, 28, 28]"

struct TransformOptions {
  bool augment = true;  // false: no flips, crops are centred
  uint64_t seed = 1;
  at::ScalarType float_type = at::kFloat;  // kFloat or kDouble: the type of every floating-point row
};

// A transform that moves pixels. Stateless.
class ViewTransform {
 public:
  virtual ~ViewTransform() = default;
  virtual void apply(ImageView& view, SplitMix& random) const = 0;
  virtual void apply_without_augmentation(ImageView& view) const = 0;
};

// One normalize: (x - mean[channel]) / std[channel], two roundings as in torchvision. A value for each channel of the
// input.
struct Affine {
  std::vector<double> mean;
  std::vector<double> std;
};

struct PipelineParts {
  SampleSpec input;
  SampleSpec output;                                                       // the same shape but for crops
  std::vector<std::pair<uint64_t, std::unique_ptr<ViewTransform>>> views;  // with their places in the spec's list
  std::vector<Affine> affines;                                             // in order
  TransformOptions options;
};

// Immutable after it is made; apply() is thread-safe.
class Pipeline {
 public:
  explicit Pipeline(PipelineParts parts);

  // What a row is: uint8 images and floating-point arrays become float_type; integer arrays stay as they are.
  const SampleSpec& output() const { return parts_.output; }
  // Is a row the raw sample, byte for byte? Then read samples straight into the batch.
  bool is_copy() const { return kernel_ == nullptr; }
  void apply(const void* raw, void* row, int64_t epoch, int64_t id) const;

  // Are there flips or crops?
  bool moves_pixels() const { return !parts_.views.empty(); }
  // Moves the mask [height, width] of a sample as apply() moves its image.
  struct MaskMove {
    int64_t epoch, id;
    int64_t padding;  // the class of what a crop adds
  };
  void move_mask(const int64_t* mask, int64_t* row, const MaskMove& move) const;

 private:
  struct Kernels;
  ImageView view_of(int64_t epoch, int64_t id) const;

  PipelineParts parts_;
  int64_t channels_ = 1, height_ = 1, width_ = 1;  // of the input; 1, 1, elements when it is not an image
  std::vector<char> table_;                        // uint8 input: the results of all 256 values for each channel
  void (*kernel_)(const Pipeline&, const void* raw, const ImageView&, void* row) = nullptr;
};

}  // namespace gputrain
