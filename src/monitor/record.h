#pragma once
// A Record is one line of events.jsonl: a JSON object with "kind". Workers make kinds step, eval, checkpoint, warning;
// the controller adds start, failure, notice, end, and to every record ts (UTC), mono_s and attempt. EVENTS.md lists
// every field.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "util/json.h"

namespace gputrain {

struct StepRecord {
  int64_t step = 0;     // global batches finished
  int64_t updates = 0;  // optimizer updates applied
  double epoch = 0;     // fractional
  double loss = 0;      // mean over the global batch, all ranks
  double lr = 0;
  double grad_norm = 0;  // before clipping; NaN when not computed
  double samples_per_s = 0;
  double data_wait_s = 0;  // since the previous record, on rank 0
  double step_s = 0;       // mean step time since the previous record
  double scale = 0;        // loss scale; 0 = no scaler
  int64_t skipped = 0;     // steps skipped by the scaler since the start
  // Seconds since the previous record on rank 0, which with data_wait_s make up the steps' time; a checkpoint's is
  // beside it. See EVENTS.md.
  double forward_s = 0;
  double backward_s = 0;
  double exposed_communication_s = 0;
  double optimizer_s = 0;
  double other_s = 0;
  double checkpoint_s = 0;
  std::optional<double> mfu;  // model FLOPs utilization, 0 to 1; nullopt = a device's peak is not known
};
Json to_json(const StepRecord& record);
StepRecord step_record_from_json(const Json& json);

struct EvalRecord {
  int64_t step = 0;
  double loss = 0;
  Json metrics = Json::object();  // {"accuracy": 0.91}
  int64_t samples = 0;
  double seconds = 0;
};
Json to_json(const EvalRecord& record);

struct CheckpointRecord {
  int64_t step = 0;
  std::string path;
  int64_t bytes = 0;
  double seconds = 0;
  std::string why;  // "every", "best", "last", "stop"
};
Json to_json(const CheckpointRecord& record);
// Items that are missing or of another type keep their defaults.
CheckpointRecord checkpoint_record_from_json(const Json& json);

Json warning_record(const std::string& text);

}  // namespace gputrain
