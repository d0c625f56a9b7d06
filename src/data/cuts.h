#pragma once
// How an epoch is cut into steps and micro-batches, as one rank sees it. Pure functions of their numbers.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "data/loader.h"
#include "spec/shares.h"

namespace gputrain {

class Cuts {
 public:
  virtual ~Cuts() = default;
  virtual int64_t steps() const = 0;                             // in an epoch, the same on every rank
  virtual int64_t micro_batches(int64_t step) const = 0;         // of this rank; 0 = none
  virtual Range micro_batch(int64_t step, int64_t i) const = 0;  // positions in the epoch's order
  virtual int64_t most_rows() const = 0;                         // of a micro-batch
  virtual int64_t most_micro_batches() const = 0;                // of a step
  virtual bool wraps() const = 0;                                // does the next epoch follow by itself?

  bool empty() const { return most_micro_batches() == 0; }  // this rank never has a sample
};

std::unique_ptr<Cuts> make_training_cuts(int64_t samples, const LoaderOptions& options);
std::unique_ptr<Cuts> make_evaluation_cuts(int64_t samples, const LoaderOptions& options);

// A step of an epoch. Behind the last step comes the next epoch, or, where epochs do not wrap, an end that stays.
class Place {
 public:
  explicit Place(const Cuts& cuts) : cuts_(cuts) {}
  void seek(int64_t epoch, int64_t step);  // 0 <= step <= steps()
  void advance() { seek(epoch_, std::min(step_ + 1, cuts_.steps())); }
  bool at_end() const { return step_ >= cuts_.steps(); }
  int64_t micro_batches() const { return at_end() ? 0 : cuts_.micro_batches(step_); }
  int64_t samples() const;  // over the step's micro-batches
  int64_t epoch() const { return epoch_; }
  int64_t step() const { return step_; }

 private:
  const Cuts& cuts_;
  int64_t epoch_ = 0;
  int64_t step_ = 0;
};

// The next micro-batch to decode: walks over steps in which this rank has none.
class Cursor {
 public:
  explicit Cursor(const Cuts& cuts) : cuts_(cuts), place_(cuts) {}
  void seek(int64_t epoch, int64_t step);
  void advance();
  bool done() const { return cuts_.empty() || place_.at_end(); }
  int64_t epoch() const { return place_.epoch(); }
  Range positions() const { return cuts_.micro_batch(place_.step(), micro_); }

 private:
  void skip_empty_steps();

  const Cuts& cuts_;
  Place place_;
  int64_t micro_ = 0;
};

}  // namespace gputrain
