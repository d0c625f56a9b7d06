#pragma once
// `gputrain eval`: all ranks evaluate one checkpoint; nothing is written.
#include <memory>

#include "train/evaluate.h"
#include "train/resume.h"
#include "worker/foundation.h"

namespace gputrain {

// Of the validation data, which there must be. `ema` may be null.
std::unique_ptr<Evaluator> make_evaluator(const Foundation& base, const Ema* ema, PhaseMarker& marker,
                                          const StopSource& stop);

class Evaluation {
 public:
  struct Parts {
    const StopSource& stop;
    PhaseMarker& marker;
  };
  // Assign.resume.path: a checkpoint directory, or CHECKPOINTS/latest, CHECKPOINTS/best. Error(kData) without
  // validation data.
  Evaluation(Foundation base, const Parts& parts);

  // Bodies of Ready and Done (wire/messages.h); the metrics and the number of samples are in Done's "final".
  Json ready() const;
  Json run();

 private:
  Foundation base_;
  LoadedModel loaded_;
  std::unique_ptr<Ema> ema_;  // null when the plan keeps none
  std::unique_ptr<Evaluator> evaluator_;
  Parts parts_;
};

}  // namespace gputrain
