// bench_loop PLAN_JSON CHUNK SKIP: a rank's training loop against a bare one of the same model, in one process.
//
// The plan (a run's plan.json, one CPU rank, classification, AdamW, no validation data) is trained by exactly what
// gputrain-worker puts together. At every CHUNK steps, between two of its steps, the bare loop (bare_loop.h) does the
// same number: so both meet the same drift of the machine. The first SKIP steps of a chunk are not counted (caches).
// Prints one JSON line: {gputrain: [steps/s of each chunk], bare: [...], losses: {gputrain, bare}, ids: of the bare
// loop, threads, dtype, clip}. Takes the glibc settings of its environment, as a rank does.
#include <fstream>
#include <iostream>

#include <ATen/Parallel.h>

#include "bare_loop.h"
#include "sys/fs.h"
#include "worker/training.h"

namespace gputrain {
namespace {

constexpr const char* kRunId = "bench";

// Records go to a file, a line and a write each, as they go to the agent's socket; between two of them it is the bare
// loop's turn.
class Turns : public RecordChannel {
 public:
  struct Lengths {
    int64_t chunk = 0, skip = 0;  // steps
  };
  Turns(BareLoop& bare, const Lengths& lengths, const std::string& log) : bare_(bare), lengths_(lengths), log_(log) {}

  void send(const Json& record) override {
    log_ << dump_line(record) << "\n" << std::flush;
    if (record.at("kind") != "step") return;
    losses_.push_back(number_from_json(record.at("loss")));
    const int64_t in_chunk = (static_cast<int64_t>(losses_.size()) - 1) % lengths_.chunk + 1;
    if (in_chunk == lengths_.skip) begun_ = real_clock().now();
    if (in_chunk < lengths_.chunk) return;
    ours_.push_back(speed(begun_));
    run_bare();
  }
  void sync() override {}

  const std::vector<double>& ours() const { return ours_; }
  const std::vector<double>& bare() const { return bares_; }
  const std::vector<double>& losses() const { return losses_; }

 private:
  void run_bare() {
    bare_.run(lengths_.skip);
    const MonotonicTime begun = real_clock().now();
    bare_.run(lengths_.chunk - lengths_.skip);
    bares_.push_back(speed(begun));
  }
  double speed(MonotonicTime begun) const {
    return static_cast<double>(lengths_.chunk - lengths_.skip) / seconds_between(begun, real_clock().now());
  }

  BareLoop& bare_;
  Lengths lengths_;
  std::ofstream log_;
  MonotonicTime begun_;
  std::vector<double> ours_, bares_, losses_;
};

Assign make_assign(const RunPlan& plan) {
  Assign assign;
  assign.attempt = 1;
  assign.run_id = kRunId;
  assign.threads = plan.launch.omp_threads;
  assign.resume.mode = "never";
  assign.plan = to_json(plan);
  return assign;
}

// The last step saves, and a commit looks at the lock.
void write_lock(const RunPlan& plan) {
  real_file_system().make_directories(plan.output);
  const Json lock{{"run_id", kRunId}, {"attempt", 1}};
  write_file_atomically(real_file_system(), plan.output + "/lock", dump_line(lock));
}

void run(char** arguments) {
  const RunPlan plan = run_plan_from_json(parse_json(real_file_system().read(arguments[1]), arguments[1]));
  const Turns::Lengths lengths{std::stoll(arguments[2]), std::stoll(arguments[3])};
  write_lock(plan);
  Foundation base = lay_foundation(make_assign(plan), {});
  BareLoop bare(plan, training_loader_options(base), plan.output + "/bare.jsonl");
  Turns turns(bare, lengths, plan.output + "/records.jsonl");
  StopSource stop;
  ProgressPage page;
  PhaseMarker marker(&page, stop, std::nullopt);
  Training training(std::move(base), {stop, marker, turns}, {});
  training.run();
  const Json result{{"gputrain", turns.ours()},
                    {"bare", turns.bare()},
                    {"losses", {{"gputrain", turns.losses()}, {"bare", bare.losses()}}},
                    {"ids", bare.ids()},
                    {"threads", at::get_num_threads()},
                    {"dtype", plan.train.precision == Precision::kFp32 ? "float32" : "another"},
                    {"clip", plan.train.clip_grad_norm + plan.train.clip_grad_value}};
  std::cout << dump_line(result) << std::endl;
}

}  // namespace
}  // namespace gputrain

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: bench_loop PLAN_JSON CHUNK SKIP\n";
    return 2;
  }
  try {
    gputrain::run(arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
