#include "train/vote.h"

#include <array>
#include <utility>

namespace gputrain {
namespace {

// Sums are what the group can do, so each stop reason has a column of its own: how many ranks want it.
enum Column { kReasons = 0, kNotReady = 5, kEvaluate, kSave, kSamples, kColumns };
static_assert(static_cast<int>(StopReason::kMaxDuration) < kNotReady);

at::Tensor vector_of(const double* values, int64_t count) {
  at::Tensor vector = at::empty({count}, at::kDouble);
  std::copy(values, values + count, vector.mutable_data_ptr<double>());
  return vector;
}

Agreement agreement_of(const double* sums) {
  Agreement agreement;
  for (int reason = 0; reason < kNotReady; ++reason) {
    if (sums[kReasons + reason] > 0) agreement.stop = static_cast<StopReason>(reason);
  }
  agreement.ready = sums[kNotReady] == 0;
  agreement.evaluate_due = sums[kEvaluate] > 0;
  agreement.save_due = sums[kSave] > 0;
  agreement.samples = static_cast<int64_t>(sums[kSamples]);
  return agreement;
}

}  // namespace

Vote::Vote(std::shared_ptr<Comm> control) : control_(std::move(control)) {}

std::function<Agreement()> Vote::start(const Ballot& ballot) {
  std::array<double, kColumns> columns{};
  columns[kReasons + static_cast<int>(ballot.stop)] = 1;
  columns[kNotReady] = ballot.ready ? 0 : 1;
  columns[kEvaluate] = ballot.evaluate_due ? 1 : 0;
  columns[kSave] = ballot.save_due ? 1 : 0;
  columns[kSamples] = static_cast<double>(ballot.samples);
  if (world_size() == 1) {
    return [columns] { return agreement_of(columns.data()); };
  }
  at::Tensor sums = vector_of(columns.data(), kColumns);
  return [wait = control_->start_all_reduce_sum(sums), sums] {
    wait();
    return agreement_of(sums.const_data_ptr<double>());
  };
}

std::function<LossAgreement()> Vote::start(const LossBallot& ballot) {
  if (world_size() == 1) {
    return [ballot] { return LossAgreement{ballot.loss_sum, ballot.non_finite ? 1 : 0}; };
  }
  const double columns[] = {ballot.loss_sum, ballot.non_finite ? 1.0 : 0.0};
  at::Tensor sums = vector_of(columns, 2);
  return [wait = control_->start_all_reduce_sum(sums), sums] {
    wait();
    const double* values = sums.const_data_ptr<double>();
    return LossAgreement{values[0], static_cast<int64_t>(values[1])};
  };
}

std::string Vote::first_text(const std::string& mine) {
  at::Tensor has_text = at::zeros({world_size()}, at::kDouble);
  has_text[rank()] = mine.empty() ? 0.0 : 1.0;
  control_->all_reduce_sum(has_text);
  for (int root = 0; root < world_size(); ++root) {
    if (has_text[root].item<double>() > 0) return control_->broadcast_bytes(mine, root);
  }
  return "";
}

}  // namespace gputrain
