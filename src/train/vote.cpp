#include "train/vote.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gputrain {
namespace {

// Sums are what the group can do, so each stop reason has a column of its own: how many ranks want it.
enum Column { kReasons = 0, kNotReady = 5, kEvaluate, kSave, kSamples, kCount, kLoss, kNonFinite, kColumns };
static_assert(static_cast<int>(StopReason::kMaxDuration) < kNotReady);

using Columns = std::array<double, kColumns>;

Columns columns_of(const Ballot& ballot) {
  Columns columns{};
  columns[kReasons + static_cast<int>(ballot.stop)] = 1;
  columns[kNotReady] = ballot.ready ? 0 : 1;
  columns[kEvaluate] = ballot.evaluate_due ? 1 : 0;
  columns[kSave] = ballot.save_due ? 1 : 0;
  columns[kSamples] = static_cast<double>(ballot.samples);
  columns[kCount] = static_cast<double>(ballot.count);
  columns[kLoss] = ballot.loss_sum;
  columns[kNonFinite] = ballot.non_finite ? 1 : 0;
  return columns;
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
  agreement.count = static_cast<int64_t>(sums[kCount]);
  agreement.loss_sum = sums[kLoss];
  agreement.non_finite_ranks = static_cast<int64_t>(sums[kNonFinite]);
  return agreement;
}

}  // namespace

Vote::Vote(std::shared_ptr<Comm> control) : control_(std::move(control)) {}

std::function<Agreement()> Vote::start(const Ballot& ballot) {
  const Columns columns = columns_of(ballot);
  if (world_size() == 1) {
    return [columns] { return agreement_of(columns.data()); };
  }
  at::Tensor sums = at::empty({kColumns}, at::kDouble);
  std::copy(columns.begin(), columns.end(), sums.mutable_data_ptr<double>());
  return [wait = control_->start_all_reduce_sum(sums), sums] {
    wait();
    return agreement_of(sums.const_data_ptr<double>());
  };
}

Vote::RankText Vote::first_text(const std::string& mine) {
  at::Tensor has_text = at::zeros({world_size()}, at::kDouble);
  has_text[rank()] = mine.empty() ? 0.0 : 1.0;
  control_->all_reduce_sum(has_text);
  for (int root = 0; root < world_size(); ++root) {
    if (has_text[root].item<double>() > 0) return {root, control_->broadcast_bytes(mine, root)};
  }
  return {};
}

}  // namespace gputrain
