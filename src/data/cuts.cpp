#include "data/cuts.h"

#include "util/error.h"

namespace gputrain {
namespace {

Range shifted(Range range, int64_t by) {
  return {range.begin + by, range.end + by};
}

class TrainingCuts : public Cuts {
 public:
  TrainingCuts(int64_t samples, const LoaderOptions& options)
      : samples_(samples),
        global_batch_(options.global_batch),
        micro_batch_(options.micro_batch),
        shard_(options.shard),
        steps_(steps_per_epoch(samples, options.global_batch, options.drop_tail)) {
    // Every window but the last is full, so two steps stand for all.
    for (int64_t step : {int64_t{0}, steps_ - 1}) {
      if (steps_ == 0) break;
      const int64_t share = share_in(step).size();
      most_rows_ = std::max(most_rows_, micro_batch_ > 0 ? std::min(share, micro_batch_) : share);
      most_micro_batches_ = std::max(most_micro_batches_, micro_batches(step));
    }
  }

  int64_t steps() const override { return steps_; }
  int64_t micro_batches(int64_t step) const override {
    const int64_t share = share_in(step).size();
    return share == 0 ? 0 : micro_batch_count(share, rows(share));
  }
  Range micro_batch(int64_t step, int64_t i) const override {
    const Range share = share_in(step);
    return shifted(micro_batch_range(share.size(), rows(share.size()), i), share.begin);
  }
  int64_t most_rows() const override { return most_rows_; }
  int64_t most_micro_batches() const override { return most_micro_batches_; }
  bool wraps() const override { return true; }

 private:
  Range share_in(int64_t step) const {
    const Range window = window_of(samples_, global_batch_, step);
    return shifted(share_of(window.size(), shard_.index, shard_.count), window.begin);
  }
  int64_t rows(int64_t share) const { return micro_batch_ > 0 ? micro_batch_ : share; }

  int64_t samples_, global_batch_, micro_batch_;
  Shard shard_;
  int64_t steps_;
  int64_t most_rows_ = 0;
  int64_t most_micro_batches_ = 0;
};

class EvaluationCuts : public Cuts {
 public:
  EvaluationCuts(int64_t samples, const LoaderOptions& options)
      : share_(share_of(samples, options.shard.index, options.shard.count)),
        rows_(options.micro_batch > 0 ? options.micro_batch
                                      : std::max<int64_t>(1, options.global_batch / options.shard.count)),
        steps_(micro_batch_count(largest_share(samples, options.shard.count), rows_)) {}

  int64_t steps() const override { return steps_; }
  int64_t micro_batches(int64_t step) const override { return step < micro_batch_count(share_.size(), rows_) ? 1 : 0; }
  Range micro_batch(int64_t step, int64_t) const override {
    return shifted(micro_batch_range(share_.size(), rows_, step), share_.begin);
  }
  int64_t most_rows() const override { return std::min(rows_, share_.size()); }
  int64_t most_micro_batches() const override { return share_.size() > 0 ? 1 : 0; }
  bool wraps() const override { return false; }

 private:
  Range share_;
  int64_t rows_;
  int64_t steps_;
};

}  // namespace

std::unique_ptr<Cuts> make_training_cuts(int64_t samples, const LoaderOptions& options) {
  return std::make_unique<TrainingCuts>(samples, options);
}

std::unique_ptr<Cuts> make_evaluation_cuts(int64_t samples, const LoaderOptions& options) {
  return std::make_unique<EvaluationCuts>(samples, options);
}

void Place::seek(int64_t epoch, int64_t step) {
  GP_CHECK(epoch >= 0 && step >= 0 && step <= cuts_.steps(), "no such step in an epoch");
  const bool next_epoch = step == cuts_.steps() && cuts_.wraps();
  epoch_ = next_epoch ? epoch + 1 : epoch;
  step_ = next_epoch ? 0 : step;
}

int64_t Place::samples() const {
  int64_t samples = 0;
  for (int64_t i = 0; i < micro_batches(); ++i) samples += cuts_.micro_batch(step_, i).size();
  return samples;
}

void Cursor::seek(int64_t epoch, int64_t step) {
  place_.seek(epoch, step);
  micro_ = 0;
  skip_empty_steps();
}

void Cursor::advance() {
  ++micro_;
  skip_empty_steps();
}

void Cursor::skip_empty_steps() {
  for (; !done() && micro_ >= place_.micro_batches(); place_.advance()) micro_ = 0;
}

}  // namespace gputrain
