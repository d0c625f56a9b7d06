#include <cmath>
#include <fstream>

#include <gmock/gmock.h>

#include "unit/train/train_rig.h"
#include "util/error.h"

namespace gputrain {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using testing::epochs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Rig;
using testing::small_plan;
using testing::steps;
using testing::steps_of;
using testing::TempDir;
using testing::whys_of;

TEST(Loop, LogsEvaluatesAndSavesToThePlannedEnd) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.evaluate = epochs(1);
  plan.checkpoint.every = steps(4);
  plan.log = steps(3);
  Rig rig(plan, alone());
  const LoopResult result = rig.run();
  EXPECT_EQ(result.reason, StopReason::kNone);
  EXPECT_EQ(result.step, 10);
  EXPECT_EQ(result.saved_step, 10);
  EXPECT_TRUE(result.final_metrics.contains("accuracy") && result.final_metrics.contains("loss"));
  EXPECT_THAT(steps_of(rig.records.of("step")), ElementsAre(3, 6, 9, 10));
  EXPECT_THAT(steps_of(rig.records.of("eval")), ElementsAre(5, 10));
  EXPECT_THAT(steps_of(rig.records.of("checkpoint")), ElementsAre(4, 8, 10));
  EXPECT_THAT(whys_of(rig.records.of("checkpoint")), ElementsAre("every", "every", "last"));
  EXPECT_EQ(rig.records.syncs, 3) << "records are safe before each commit";
  EXPECT_EQ(rig.records.of("eval")[0].at("samples"), 21);
  const Json last = rig.records.of("step").back();
  EXPECT_EQ(last.at("updates"), 10);
  EXPECT_EQ(last.at("epoch"), 2.0);
  EXPECT_GT(last.at("grad_norm").get<double>(), 0);
}

TEST(Loop, TheLossFalls) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.epochs = 20;
  plan.schedule.name = "constant";
  Rig rig(plan, alone());
  rig.run();
  const std::vector<Json> records = rig.records.of("step");
  EXPECT_LT(records.back().at("loss").get<double>(), 0.8 * records.front().at("loss").get<double>());
}

// The fake clock moves in each step's reduction. What is due by the clock is asked as a step's last backward begins, so
// before that step's 25 s: 60 s are seen to be over in the fourth. Records are written when the step has ended.
TEST(Loop, SavesAndLogsByRank0sClock) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.checkpoint.every.duration = Milliseconds(60000);
  plan.log = {std::nullopt, Milliseconds(50000)};
  Rig rig(plan, alone());
  rig.runner->hooks().on_gradients = [&](int64_t) { rig.clock.advance(std::chrono::seconds(25)); };
  rig.run();
  EXPECT_THAT(steps_of(rig.records.of("checkpoint")), ElementsAre(4, 8, 10));
  EXPECT_THAT(steps_of(rig.records.of("step")), ElementsAre(2, 4, 6, 8, 10));
  EXPECT_EQ(rig.records.of("step")[0].at("step_s"), 25.0);
  EXPECT_EQ(rig.records.of("step")[0].at("samples_per_s"), 20.0 / 50.0);
}

TEST(Loop, AnEvaluationThatImprovesSaves) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.evaluate = steps(1);
  plan.checkpoint.keep_best = "loss";
  plan.checkpoint.best_is_larger = false;
  plan.train.max_steps = 6;
  Rig rig(plan, alone());
  rig.run();
  std::vector<int64_t> improving;
  double best = INFINITY;
  for (const Json& record : rig.records.of("eval")) {
    if (record.at("loss").get<double>() < best) improving.push_back(record.at("step").get<int64_t>());
    best = std::min(best, record.at("loss").get<double>());
  }
  if (improving.back() != 6) improving.push_back(6);
  EXPECT_EQ(steps_of(rig.records.of("checkpoint")), improving);
  EXPECT_EQ(rig.records.of("checkpoint")[0].at("why"), "best");
  EXPECT_EQ(rig.state.counters.best, best);
}

// Trains with an interruption at `at` and goes on in new objects; everything must equal the undisturbed run to the bit.
void check_resume(int rank, const Comms& first, const Comms& second, const std::string& directory, int64_t at) {
  RunPlan plan = small_plan(directory + "/undisturbed-" + std::to_string(at));
  plan.model.args["dropout"] = 0.3;
  plan.evaluate = epochs(1);
  plan.checkpoint.every = steps(4);
  Rig whole(plan, first);
  whole.run();

  plan.output = directory + "/broken-" + std::to_string(at);
  std::vector<Json> losses;
  {
    Rig broken(plan, first);
    broken.runner->hooks().on_gradients = [&](int64_t step) {
      if (step == at) broken.stop.raise(StopReason::kPreempted);
    };
    const LoopResult result = broken.run();
    EXPECT_EQ(result.reason, StopReason::kPreempted);
    // The vote of the next step may be under way already, then one more step is done.
    EXPECT_GE(result.step, at);
    EXPECT_LE(result.step, at + 1);
    EXPECT_EQ(result.saved_step, result.step);
    losses = broken.records.of("step");
  }
  first.control->barrier();  // rank 0 has written
  Rig resumed(plan, second);
  EXPECT_EQ(resumed.state.counters.step, static_cast<int64_t>(rank == 0 ? losses.size() : resumed.state.counters.step));
  EXPECT_EQ(resumed.run().step, 10);
  EXPECT_EQ(resumed.hash(), whole.hash());
  EXPECT_EQ(resumed.state.counters, whole.state.counters);
  for (const Json& record : resumed.records.of("step")) losses.push_back(record);
  const std::vector<Json> expected = whole.records.of("step");
  if (rank != 0) return;
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    for (const char* item : {"step", "updates", "epoch", "loss", "lr", "grad_norm"}) {
      EXPECT_EQ(losses[i].at(item), expected[i].at(item)) << item << " of step " << i + 1;
    }
  }
}

TEST(Loop, ResumesToTheBit) {
  TempDir directory;
  for (const int64_t at : {1, 4, 5, 7}) check_resume(0, alone(), alone(), directory.path(), at);
}

TEST(Loop, ResumesToTheBitOnTwoAndThreeRanks) {
  for (const int world : {2, 3}) {
    TempDir directory;
    EXPECT_EQ(test::run_ranks(world,
                              [&](int rank, const CommOptions& options) {
                                const Comms comms = make_comms(options);
                                for (const int64_t at : {1, 6}) check_resume(rank, comms, comms, directory.path(), at);
                              }),
              test::all_succeed(world));
  }
}

// Says on one rank, in every other step, that the next batch is not there yet.
class LateLoader : public Loader {
 public:
  LateLoader(std::unique_ptr<Loader> loader, bool late) : loader_(std::move(loader)), late_(late) {}
  int64_t steps_per_epoch() const override { return loader_->steps_per_epoch(); }
  void seek(int64_t epoch, int64_t step) override { loader_->seek(epoch, step); }
  bool ready() override { return !(late_ && ++asked_ % 2 == 1); }
  int64_t next_samples() const override { return loader_->next_samples(); }
  void cancel() override { loader_->cancel(); }
  std::optional<std::vector<Batch>> next_step() override { return loader_->next_step(); }

 private:
  std::unique_ptr<Loader> loader_;
  bool late_;
  int asked_ = 0;
};

// The last rank's batches are late; saves and evaluations go by rank 0's clock, which takes 25 s a step.
void run_late(int rank, const CommOptions& options, const std::string& output) {
  const Comms comms = make_comms(options);
  std::string on_time;
  for (const bool late : {false, true}) {
    RunPlan plan = small_plan(output + (late ? "/late" : "/on_time"));
    plan.evaluate.duration = Milliseconds(90000);
    plan.checkpoint.every.duration = Milliseconds(60000);
    const auto data = open_source(plan.data.train, "data.train");
    LoaderOptions loading;
    loading.shard = {rank, options.world_size};
    loading.global_batch = 10;
    loading.seed = plan.seed;
    const bool mine = late && rank == options.world_size - 1;
    Rig rig(plan, comms, "auto", nullptr, std::make_unique<LateLoader>(make_loader(*data, {}, loading), mine));
    rig.runner->hooks().on_gradients = [&](int64_t) { rig.clock.advance(std::chrono::seconds(25)); };
    const LoopResult result = rig.run();
    EXPECT_EQ(result.step, 10);
    if (late) {
      EXPECT_EQ(rig.hash(), on_time);
    }
    on_time = rig.hash();
    if (rank == 0) {
      EXPECT_THAT(steps_of(rig.records.of("step")), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
      EXPECT_THAT(steps_of(rig.records.of("eval")), Not(IsEmpty()));
      EXPECT_GE(rig.records.of("checkpoint").size(), 3u);
    }
  }
}

TEST(Loop, ALateBatchCostsAVoteAndChangesNothing) {
  for (const int world : {2, 3}) {
    TempDir directory;
    EXPECT_EQ(test::run_ranks(
                  world, [&](int rank, const CommOptions& options) { run_late(rank, options, directory.path()); },
                  std::chrono::seconds(20)),
              test::all_succeed(world));
  }
}

// At any world size the windows are the same samples, each rank's parameters the same bits.
TEST(Loop, RanksStayEqualAndTheirSamplesMakeTheWindow) {
  for (const int world : {1, 2, 3}) {
    TempDir directory;
    const std::string traces = directory / "trace";
    ASSERT_EQ(test::run_ranks(world,
                              [&](int rank, const CommOptions& options) {
                                RunPlan plan = small_plan(directory / "run");
                                plan.train.micro_batch = 2;
                                Rig rig(plan, make_comms(options));
                                Trace trace(traces, 1, rank);
                                rig.run(&trace);
                              }),
              test::all_succeed(world));
    std::vector<std::vector<Json>> lines(static_cast<size_t>(world));
    for (int rank = 0; rank < world; ++rank) {
      std::ifstream file(traces + "/attempt-1-rank-" + std::to_string(rank) + ".jsonl");
      for (std::string line; std::getline(file, line);)
        lines[static_cast<size_t>(rank)].push_back(parse_json(line, "trace"));
      ASSERT_EQ(lines[static_cast<size_t>(rank)].size(), 10u);
    }
    for (size_t i = 0; i < 10; ++i) {
      const SampleOrder order(46, 7, static_cast<int64_t>(i) / 5);
      std::vector<int64_t> expected, found;
      const Range window = window_of(46, 10, static_cast<int64_t>(i) % 5);
      for (int64_t position = window.begin; position < window.end; ++position) expected.push_back(order[position]);
      for (const auto& of_rank : lines) {
        for (const Json& id : of_rank[i].at("ids")) found.push_back(id.get<int64_t>());
        EXPECT_EQ(of_rank[i].at("parameters_hash"), lines[0][i].at("parameters_hash"));
        EXPECT_EQ(of_rank[i].at("loss"), lines[0][i].at("loss"));
        EXPECT_EQ(of_rank[i].at("all_reduces"), lines[0][i].at("all_reduces"));
        EXPECT_EQ(of_rank[i].at("step"), static_cast<int64_t>(i) + 1);
        if (world > 1) {
          EXPECT_EQ(of_rank[i].at("all_reduces"), 1) << "one bucket, whatever the accumulation";
        }
      }
      EXPECT_EQ(found, expected) << "world " << world << ", step " << i + 1;
    }
  }
}

TEST(Loop, AFinishedRunDoesNothing) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.evaluate = epochs(1);
  Rig(plan, alone()).run();
  Rig again(plan, alone());
  const LoopResult result = again.run();
  EXPECT_EQ(result.reason, StopReason::kNone);
  EXPECT_EQ(result.step, 10);
  EXPECT_EQ(result.saved_step, 10);
  EXPECT_TRUE(again.records.records.empty());
  plan.train.epochs = 3;  // more epochs continue the run
  Rig more(plan, alone());
  EXPECT_EQ(more.run().step, 15);
  EXPECT_THAT(steps_of(more.records.of("step")), ElementsAre(11, 12, 13, 14, 15));
}

void overflow_every_step(Rig& rig) {
  rig.runner->hooks().on_gradients = [&rig](int64_t) {
    at::NoGradGuard no_grad;
    rig.state.parameters()[0].grad().view(-1)[0] = INFINITY;
  };
}

// fp16 whose every step overflows: nothing was learned, so the run is not done, and no checkpoint says that it is.
TEST(Loop, ARunWithoutAnyUpdateFails) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.precision = Precision::kFp16;
  plan.train.max_steps = 4;
  Rig rig(plan, alone());
  overflow_every_step(rig);
  try {
    rig.run();
    FAIL() << "done";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kNonFinite);
    EXPECT_THAT(error.message, HasSubstr("the loss scaler skipped all 4 steps"));
  }
  EXPECT_EQ(rig.state.counters.skipped, 4);
  EXPECT_TRUE(rig.records.of("checkpoint").empty());
}

// Three steps may be fewer than a scale needs to settle.
TEST(Loop, ASmokeRunMayEndBeforeItsScaleFits) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.smoke = true;
  plan.train.precision = Precision::kFp16;
  plan.train.max_steps = 3;
  Rig rig(plan, alone());
  overflow_every_step(rig);
  EXPECT_EQ(rig.run().step, 3);
  EXPECT_EQ(rig.state.counters.skipped, 3);
}

TEST(Loop, ResumeRefusesAnotherRun) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.max_steps = 2;
  Rig(plan, alone()).run();
  plan.train.global_batch = 20;
  try {
    Rig rig(plan, alone());
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_THAT(error.message, HasSubstr("train.global_batch was 10, is 20"));
  }
}

// Only rank 0 reads; the others must hear of its failure instead of waiting.
TEST(Resume, AnErrorOnRank0ReachesTheOthers) {
  EXPECT_EQ(test::run_ranks(2,
                            [](int rank, const CommOptions& options) {
                              TempDir directory;
                              RunPlan plan = small_plan(directory.path());
                              Rig rig(plan, make_comms(options));
                              try {
                                resume(rig.comms, rig.state, rig.stamp,
                                       []() -> ResumeChoice { throw Error(ErrorKind::kCheckpoint, "none verifies"); });
                                ADD_FAILURE() << "went on";
                              } catch (const Error& error) {
                                EXPECT_EQ(error.kind, rank == 0 ? ErrorKind::kCheckpoint : ErrorKind::kPeerLost);
                                EXPECT_THAT(error.message, HasSubstr("none verifies"));
                              }
                            }),
            test::all_succeed(2));
}

TEST(Fence, ACommitByAnotherAttemptIsRefused) {
  TempDir directory;
  const std::string path = directory / "lock";
  const auto fence = lock_fence(real_file_system(), path, "run-1", 2);
  EXPECT_THROW(fence(), Error) << "no lock";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  write(R"({"run_id": "run-1", "attempt": 2})");
  EXPECT_NO_THROW(fence());
  write(R"({"run_id": "run-1", "attempt": 3})");
  EXPECT_THROW(fence(), Error);
  write(R"({"run_id": "run-9", "attempt": 2})");
  EXPECT_THROW(fence(), Error);
}

}  // namespace
}  // namespace gputrain
