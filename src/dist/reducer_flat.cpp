#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "dist/reducer_backends.h"

namespace gputrain {
namespace {

// The reference: one all-reduce a dtype after backward. Divides before it sums, as c10d::Reducer does, so that two
// ranks get the same bits from both (from three on Gloo's summation order depends on the layout).
class FlatReducer : public GradReducer {
 public:
  explicit FlatReducer(ReducerInput input)
      : comm_(std::move(input.comm)),
        parameters_(std::move(input.parameters)),
        on_all_reduce_(std::move(input.options.on_all_reduce)),
        layout_(compute_layout(parameters_, {std::numeric_limits<size_t>::max()})) {}

  void zero_gradients() override { zero_in_place(parameters_); }
  void begin_micro_batch(bool) override {}

  void finish() override {
    const at::NoGradGuard no_grad;
    for (const auto& bucket : layout_) reduce(bucket);
  }

  Json layout() const override { return layout_to_json(layout_); }
  int64_t all_reduce_count() const override { return all_reduces_; }

 private:
  void reduce(const std::vector<size_t>& bucket) {
    std::vector<at::Tensor> pieces;
    pieces.reserve(bucket.size());
    for (const size_t index : bucket) pieces.push_back(parameters_[index].grad().reshape(-1));
    at::Tensor flat = at::cat(pieces).div_(comm_->world_size());
    ++all_reduces_;
    if (on_all_reduce_) on_all_reduce_();
    comm_->all_reduce_sum(flat);
    int64_t offset = 0;
    for (const size_t index : bucket) {
      const at::Tensor& gradient = parameters_[index].grad();
      gradient.copy_(flat.narrow(0, offset, gradient.numel()).view(gradient.sizes()));
      offset += gradient.numel();
    }
  }

  std::shared_ptr<Comm> comm_;
  std::vector<at::Tensor> parameters_;
  std::function<void()> on_all_reduce_;
  BucketLayout layout_;
  int64_t all_reduces_ = 0;
};

}  // namespace

std::unique_ptr<GradReducer> make_flat_reducer(ReducerInput input) {
  return std::make_unique<FlatReducer>(std::move(input));
}

}  // namespace gputrain
