#include "data/target_transform.h"

#include "data/transforms.h"
#include "util/error.h"

namespace gputrain {

TargetTransform::TargetTransform(const Source& source, const Pipeline& inputs, at::ScalarType float_type)
    : inputs_(inputs), input_{source.target_shape(), source.target_type()}, output_(input_) {
  if (at::isFloatingType(input_.type)) {
    numbers_ = make_pipeline({}, input_, {.float_type = float_type});
    output_ = numbers_->output();
    if (numbers_->is_copy()) numbers_.reset();
  }
  if (!source.mask_padding() || !inputs.moves_pixels()) return;
  const std::vector<int64_t> image = source.sample_shape(), &moved = inputs.output().shape;
  GP_CHECK(input_ == (SampleSpec{{image.at(1), image.at(2)}, at::kLong}), "a mask has its image's pixels");
  padding_ = source.mask_padding();
  output_.shape = {moved.at(1), moved.at(2)};
}

void TargetTransform::apply(const void* raw, void* row, int64_t epoch, int64_t id) const {
  if (padding_) {
    inputs_.move_mask(static_cast<const int64_t*>(raw), static_cast<int64_t*>(row), {epoch, id, *padding_});
  } else {
    numbers_->apply(raw, row, epoch, id);
  }
}

}  // namespace gputrain
