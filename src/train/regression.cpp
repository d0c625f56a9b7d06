#include <cmath>

#include <ATen/ATen.h>

#include "train/loss.h"
#include "train/objectives.h"
#include "util/error.h"

namespace gputrain {
namespace {

class Regression : public Objective {
 public:
  explicit Regression(const LossPlan& loss) : loss_(loss) {}

  void check(const at::Tensor& outputs, const at::Tensor& targets, const std::vector<int64_t>& /*ids*/) const override {
    if (outputs.dim() < 1 || targets.dim() < 1 || outputs.size(0) != targets.size(0) ||
        outputs.numel() != targets.numel())
      refuse_shapes("regression", outputs, targets, "as many output values as target values of a sample");
  }

  at::Tensor loss_sum(const at::Tensor& outputs, const at::Tensor& targets) const override {
    return distances(rows(outputs), rows(targets)).mean(1).sum();
  }

  // [loss, absolute errors, squared errors, samples]
  at::Tensor sums(const at::Tensor& outputs, const at::Tensor& targets) const override {
    const at::Tensor found = rows(outputs), wanted = rows(targets), error = found - wanted;
    const at::Tensor loss = distances(found, wanted).mean(1).sum(at::kDouble);
    return stack_sums({loss, error.abs().mean(1).sum(at::kDouble), error.square().mean(1).sum(at::kDouble),
                       at::full_like(loss, static_cast<double>(targets.size(0)))});
  }
  int64_t sum_count() const override { return 4; }

  Metrics metrics(const at::Tensor& sums) const override {
    const double* sum = sums.const_data_ptr<double>();
    const double count = sum[3];
    return {{{"loss", sum[0] / count}, {"mae", sum[1] / count}, {"rmse", std::sqrt(sum[2] / count)}},
            static_cast<int64_t>(count)};
  }

 private:
  // [n, values], wide enough to subtract.
  static at::Tensor rows(const at::Tensor& values) { return widened(values).reshape({values.size(0), -1}); }

  at::Tensor distances(const at::Tensor& found, const at::Tensor& wanted) const {
    if (loss_.distance == "mse") return at::mse_loss(found, wanted, at::Reduction::None);
    if (loss_.distance == "l1") return at::l1_loss(found, wanted, at::Reduction::None);
    GP_CHECK(loss_.distance == "smooth_l1", "the spec knows three distances");
    return at::smooth_l1_loss(found, wanted, at::Reduction::None);
  }

  LossPlan loss_;
};

}  // namespace

std::unique_ptr<Objective> make_regression(const LossPlan& loss) {
  return std::make_unique<Regression>(loss);
}

}  // namespace gputrain
