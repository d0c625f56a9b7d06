#pragma once
// The step vote (design section 6.7): every per-step agreement in one small vector on the control group, never the
// gradient group.
//
// A vote is about two steps: of the one that ends, is any loss not finite, and what is their sum? Of the one to come,
// does anybody stop, is an evaluation or a save due, has everybody a batch? Where a batch comes late, or no step ends,
// a vote of its own decides the second half.
//
// A vote can be started early and awaited late, so that its latency hides behind the backward pass. At most one is in
// flight. In a world of one nothing is sent. Used by the training thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dist/comm.h"
#include "wire/messages.h"

namespace gputrain {

struct Ballot {
  // The step to come.
  StopReason stop = StopReason::kNone;
  bool ready = true;          // this rank has its batch
  bool evaluate_due = false;  // rank 0 decides what depends on a clock; the others leave these false
  bool save_due = false;
  int64_t samples = 0;  // this rank's share of the step
  int64_t count = 0;    // what its loss is divided by: samples, or tokens (see Objective)
  // The step that ends.
  double loss_sum = 0;  // over this rank's samples
  bool non_finite = false;
};
struct Agreement {
  StopReason stop = StopReason::kNone;  // the strongest of all ranks' reasons
  bool ready = true;                    // every rank is
  bool evaluate_due = false;
  bool save_due = false;
  int64_t samples = 0;  // of the step, over all ranks
  int64_t count = 0;    // C: what its loss is divided by
  double loss_sum = 0;
  int64_t non_finite_ranks = 0;
};

class Vote {
 public:
  explicit Vote(std::shared_ptr<Comm> control);

  // The returned function waits for the result; call it exactly once, before the next vote.
  std::function<Agreement()> start(const Ballot& ballot);
  Agreement take(const Ballot& ballot) { return start(ballot)(); }

  // A rare path after a failed vote: the lowest rank that has a text, and its text, on every rank. All ranks call it.
  struct RankText {
    int rank = -1;  // -1: nobody has one
    std::string text;
  };
  RankText first_text(const std::string& mine);

  int rank() const { return control_->rank(); }
  int world_size() const { return control_->world_size(); }
  Comm& comm() { return *control_; }

 private:
  std::shared_ptr<Comm> control_;
};

}  // namespace gputrain
