#include "data/decode.h"

#include <atomic>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace gputrain {
namespace {

size_t bytes_of(const SampleSpec& spec) {
  return static_cast<size_t>(spec.elements()) * at::elementSize(spec.type);
}

std::vector<int64_t> with_rows(int64_t rows, const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes{rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

}  // namespace

bool Buffer::in_use() const {
  const bool held = inputs.storage().use_count() > 1 || targets.storage().use_count() > 1;
  std::atomic_thread_fence(
      std::memory_order_acquire);  // what the last holder did happens before the memory is written again
  return held;
}

Decoder::Decoder(const Source& source, std::unique_ptr<Pipeline> pipeline, const LoaderOptions& options)
    : source_(source),
      pipeline_(std::move(pipeline)),
      targets_(source, *pipeline_, options.float_type),
      options_(options),
      sample_bytes_(bytes_of({source.sample_shape(), source.sample_type()})),
      row_bytes_(bytes_of(pipeline_->output())),
      target_bytes_(bytes_of(targets_.input())),
      target_row_bytes_(bytes_of(targets_.output())) {}

std::vector<int64_t> Decoder::decode(int64_t epoch, Range positions, const Buffer& buffer, Scratch& scratch) const {
  const SampleOrder order(source_.size(), options_.seed, epoch, options_.shuffle);
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(positions.size()));
  auto* row = static_cast<char*>(buffer.inputs.data_ptr());
  auto* target = static_cast<char*>(buffer.targets.data_ptr());
  const bool copies_inputs = pipeline_->is_copy(), copies_targets = targets_.is_copy();
  if (!copies_inputs) scratch.sample.resize(sample_bytes_);
  if (!copies_targets) scratch.target.resize(target_bytes_);
  source_.check_unchanged();
  for (int64_t position = positions.begin; position < positions.end; ++position) {
    const int64_t id = order[position];
    source_.read(id, copies_inputs ? row : scratch.sample.data(), copies_targets ? target : scratch.target.data());
    if (!copies_inputs) pipeline_->apply(scratch.sample.data(), row, epoch, id);
    if (!copies_targets) targets_.apply(scratch.target.data(), target, epoch, id);
    ids.push_back(id);
    row += row_bytes_;
    target += target_row_bytes_;
  }
  return ids;
}

Buffer Decoder::make_buffer(int64_t rows) const {
  const auto make = [&](const std::vector<int64_t>& sizes, at::ScalarType type) {
    if (options_.pin_memory && options_.allocate) return options_.allocate(sizes, type);
    return at::empty(sizes, at::TensorOptions(type));
  };
  return {make(with_rows(rows, pipeline_->output().shape), pipeline_->output().type),
          make(with_rows(rows, targets_.output().shape), targets_.output().type)};
}

Batch Decoder::make_batch(const Buffer& buffer, std::vector<int64_t> ids) {
  // Plain views: autograd's bookkeeping of a view's base would cost more than the view, and nothing here requires a
  // gradient.
  const at::AutoDispatchBelowADInplaceOrView plain;
  const auto rows = static_cast<int64_t>(ids.size());
  return {buffer.inputs.narrow(0, 0, rows), buffer.targets.narrow(0, 0, rows), std::move(ids)};
}

}  // namespace gputrain
