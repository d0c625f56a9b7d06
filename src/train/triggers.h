#pragma once
// When to log, evaluate, save and end: a pure function of counters and rank 0's clock.
#include <cstdint>

#include "spec/plan.h"
#include "sys/clock.h"

namespace gputrain {

// Planned length in global batches: epochs or max_steps, the first reached. At least one is set.
int64_t total_steps(const TrainPlan& plan, int64_t steps_per_epoch);

// One recurring trigger. Lengths count from step 0 (every 100 steps: at 100, 200, ... also after a resume); durations
// from the last time it fired.
class Trigger {
 public:
  Trigger(const Every& every, int64_t steps_per_epoch, MonotonicTime start);
  // By steps or by clock: asked on rank 0 only.
  bool due(int64_t step, MonotonicTime now) const;
  void fired(MonotonicTime now) { last_ = now; }
  bool never() const { return every_.never(); }

 private:
  bool due_at(int64_t step) const;

  Every every_;
  int64_t steps_;  // 0 = no length
  MonotonicTime last_;
};

struct TriggerPlan {
  Every log, evaluate, save;
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
};
struct Position {
  int64_t step = 0;           // global batches finished
  int64_t evaluated_at = -1;  // step of the last finished evaluation
  int64_t saved_at = -1;      // step of the last checkpoint
};
struct Due {
  bool evaluate = false;
  bool save = false;
};

class Triggers {
 public:
  Triggers(const TriggerPlan& plan, MonotonicTime start);
  bool finished(int64_t step) const { return step >= plan_.total_steps; }
  // What is due before the next step, by steps and clock. The loop asks once a step, as its last backward begins: a
  // duration that ends later in the step is seen one step later. What was done for this very step is not due again; at
  // step 0 nothing is. The last step always saves, and evaluates when evaluation is wanted at all.
  Due due(const Position& position, MonotonicTime now) const;
  bool log_due(int64_t step, MonotonicTime now) const;
  void logged(MonotonicTime now) { log_.fired(now); }
  void evaluated(MonotonicTime now) { evaluate_.fired(now); }
  void saved(MonotonicTime now) { save_.fired(now); }
  const TriggerPlan& plan() const { return plan_; }

 private:
  TriggerPlan plan_;
  Trigger log_, evaluate_, save_;
};

}  // namespace gputrain
