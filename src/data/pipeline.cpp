#include "data/pipeline.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "data/dtype.h"
#include "util/error.h"

namespace gputrain {
namespace {

// The exact arithmetic of torchvision's normalize in type T, over values in place.
template <typename T>
void normalize(const std::vector<Affine>& affines, int64_t channel, T* begin, T* end) {
  for (const Affine& affine : affines) {
    const T mean = static_cast<T>(affine.mean[channel]);
    const T std = static_cast<T>(affine.std[channel]);
    for (T* value = begin; value != end; ++value) *value = (*value - mean) / std;
  }
}

// Copies one plane through `view`; value(pixel) is what a pixel becomes, `padding` what lies outside.
template <typename In, typename Out, typename Value>
void copy_plane(const In* plane, int64_t width, const ImageView& view, Out* out, const Value& value, Out padding) {
  const AxisView& x = view.x;
  for (int64_t y = 0; y < view.y.size; ++y, out += x.size) {
    if (y < view.y.begin || y >= view.y.end) {
      std::fill(out, out + x.size, padding);
      continue;
    }
    const In* row = plane + (view.y.start + view.y.step * y) * width + x.start;
    std::fill(out, out + x.begin, padding);
    if (x.step > 0) {
      for (int64_t i = x.begin; i < x.end; ++i) out[i] = value(row[i]);
    } else {
      for (int64_t i = x.begin; i < x.end; ++i) out[i] = value(row[-i]);
    }
    std::fill(out + x.end, out + x.size, padding);
  }
}

}  // namespace

struct Pipeline::Kernels {
  // uint8: every value's result is looked up, so the arithmetic is exact and costs one load a pixel.
  template <typename Out>
  static void bytes(const Pipeline& p, const void* raw, const ImageView& view, void* row) {
    const int64_t plane = p.height_ * p.width_, out_plane = view.y.size * view.x.size;
    for (int64_t c = 0; c < p.channels_; ++c) {
      const Out* table = reinterpret_cast<const Out*>(p.table_.data()) + c * 256;
      copy_plane(
          static_cast<const uint8_t*>(raw) + c * plane, p.width_, view, static_cast<Out*>(row) + c * out_plane,
          [table](uint8_t pixel) { return table[pixel]; }, table[0]);
    }
  }

  template <typename In, typename Out>
  static void floats(const Pipeline& p, const void* raw, const ImageView& view, void* row) {
    const int64_t plane = p.height_ * p.width_, out_plane = view.y.size * view.x.size;
    for (int64_t c = 0; c < p.channels_; ++c) {
      Out* out = static_cast<Out*>(row) + c * out_plane;
      copy_plane(
          static_cast<const In*>(raw) + c * plane, p.width_, view, out,
          [](In value) { return static_cast<Out>(value); }, Out{0});
      normalize(p.parts_.affines, c, out, out + out_plane);
    }
  }

  template <typename Out>
  static std::vector<char> make_table(const PipelineParts& parts, int64_t channels) {
    std::vector<char> bytes(static_cast<size_t>(channels) * 256 * sizeof(Out));
    for (int64_t c = 0; c < channels; ++c) {
      Out* table = reinterpret_cast<Out*>(bytes.data()) + c * 256;
      for (int value = 0; value < 256; ++value) table[value] = static_cast<Out>(value) / Out{255};
      normalize(parts.affines, c, table, table + 256);
    }
    return bytes;
  }

  template <typename Out>
  static auto choose(at::ScalarType input) -> decltype(Pipeline::kernel_) {
    switch (input) {
      case at::kByte:
        return &bytes<Out>;
      case at::kHalf:
        return &floats<at::Half, Out>;
      case at::kBFloat16:
        return &floats<at::BFloat16, Out>;
      case at::kFloat:
        return &floats<float, Out>;
      default:
        return &floats<double, Out>;
    }
  }
};

int64_t SampleSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string describe(const SampleSpec& spec) {
  return std::string(dtype_name(spec.type)) + " " + shape_text(spec.shape);
}

Pipeline::Pipeline(PipelineParts parts) : parts_(std::move(parts)) {
  const SampleSpec& input = parts_.input;
  if (input.shape.size() == 3) {
    channels_ = input.shape[0], height_ = input.shape[1], width_ = input.shape[2];
  } else {
    width_ = input.elements();
  }
  if (input == parts_.output && parts_.views.empty() && parts_.affines.empty()) return;
  const bool wide = parts_.output.type == at::kDouble;
  GP_CHECK(wide || parts_.output.type == at::kFloat, "transforms make float or double");
  kernel_ = wide ? Kernels::choose<double>(input.type) : Kernels::choose<float>(input.type);
  if (input.type != at::kByte) return;
  table_ = wide ? Kernels::make_table<double>(parts_, channels_) : Kernels::make_table<float>(parts_, channels_);
}

ImageView Pipeline::view_of(int64_t epoch, int64_t id) const {
  ImageView view{AxisView::whole(height_), AxisView::whole(width_)};
  if (parts_.views.empty()) return view;
  if (!parts_.options.augment) {
    for (const auto& [place, transform] : parts_.views) transform->apply_without_augmentation(view);
    return view;
  }
  const uint64_t key = derive_seed(RandomDomain::kAugmentation, parts_.options.seed, static_cast<uint64_t>(epoch),
                                   static_cast<uint64_t>(id));
  for (const auto& [place, transform] : parts_.views) {
    SplitMix random(key + place);
    transform->apply(view, random);
  }
  return view;
}

void Pipeline::apply(const void* raw, void* row, int64_t epoch, int64_t id) const {
  GP_CHECK(kernel_ != nullptr, "a copying pipeline has nothing to apply");
  kernel_(*this, raw, view_of(epoch, id), row);
}

void Pipeline::move_mask(const int64_t* mask, int64_t* row, const MaskMove& move) const {
  copy_plane(
      mask, width_, view_of(move.epoch, move.id), row, [](int64_t value) { return value; }, move.padding);
}

}  // namespace gputrain
