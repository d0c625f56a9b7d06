#include "train/step_times.h"

#include <gmock/gmock.h>

#include "train/device_timeline.h"
#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;
using testing::alone;
using testing::epochs;
using testing::FakeClock;
using testing::Rig;
using testing::small_plan;
using testing::steps;
using testing::TempDir;

struct TimedPhase {
  Phase phase;
  int lasts_ms;
};

StepTimes times_of(const std::vector<TimedPhase>& phases) {
  FakeClock clock;
  PhaseTimer timer(make_timeline(at::kCPU, clock));
  clock.advance(milliseconds(1000));  // set-up
  for (const TimedPhase& timed : phases) {
    timer.enter(timed.phase);
    clock.advance(milliseconds(timed.lasts_ms));
  }
  return timer.take();
}

TEST(PhaseTimer, GivesEachPhaseItsTime) {
  const StepTimes times = times_of({{Phase::kDataWait, 1},
                                    {Phase::kForward, 2},
                                    {Phase::kBackward, 4},
                                    {Phase::kForward, 8},
                                    {Phase::kBackward, 16},
                                    {Phase::kOptimizer, 32},
                                    {Phase::kWriting, 64},
                                    {Phase::kCommit, 128},
                                    {Phase::kEvaluation, 256},
                                    {Phase::kIdle, 512}});
  EXPECT_DOUBLE_EQ(times[StepPart::kOther], 0.001);
  EXPECT_DOUBLE_EQ(times[StepPart::kForward], 0.010);
  EXPECT_DOUBLE_EQ(times[StepPart::kBackward], 0.020);
  EXPECT_DOUBLE_EQ(times[StepPart::kOptimizer], 0.032);
  EXPECT_DOUBLE_EQ(times[StepPart::kCheckpoint], 0.192);
  EXPECT_DOUBLE_EQ(times[StepPart::kCommunication], 0);
}

// Backward goes on after the first buckets are sent; after the last one there is only waiting.
TEST(PhaseTimer, OnlyTheLastAllReduceIsExposed) {
  const StepTimes times = times_of({{Phase::kBackward, 1},
                                    {Phase::kAllReduce, 2},
                                    {Phase::kAllReduce, 4},
                                    {Phase::kAllReduce, 8},
                                    {Phase::kOptimizer, 16}});
  EXPECT_DOUBLE_EQ(times[StepPart::kBackward], 0.007);
  EXPECT_DOUBLE_EQ(times[StepPart::kCommunication], 0.008);
}

TEST(PhaseTimer, TakeIncludesThePhaseThatRuns) {
  FakeClock clock;
  PhaseTimer timer(make_timeline(at::kCPU, clock));
  timer.enter(Phase::kOptimizer);
  clock.advance(milliseconds(4));
  EXPECT_DOUBLE_EQ(timer.take()[StepPart::kOptimizer], 0.004);
  clock.advance(milliseconds(2));
  EXPECT_DOUBLE_EQ(timer.take()[StepPart::kOptimizer], 0.002);
}

// A device that runs behind its host: marks are passed when the test says so, at times of its own.
struct FakeDevice {
  double now = 0;  // when the device reaches what it is given next
  int passed = 0;  // marks, of `given`
  int given = 0;
  int made = 0;
};

class FakeMark : public DeviceMark {
 public:
  explicit FakeMark(FakeDevice& device) : device_(device) { ++device.made; }
  void record() override {
    number_ = device_.given++;
    at_ = device_.now;
  }
  bool passed() const override { return number_ < device_.passed; }
  double seconds_since(const DeviceMark& earlier) const override {
    return at_ - dynamic_cast<const FakeMark&>(earlier).at_;
  }

 private:
  FakeDevice& device_;
  int number_ = 0;
  double at_ = 0;
};

TEST(Trap48TimersWithoutDeviceSync, TimeIsTheDevicesAndNobodyWaits) {
  FakeDevice device;
  PhaseTimer timer(std::make_unique<DeviceTimeline>([&] { return std::make_unique<FakeMark>(device); }));
  timer.enter(Phase::kForward);
  device.now = 1;
  timer.enter(Phase::kBackward);
  device.now = 4;
  timer.enter(Phase::kOptimizer);
  device.passed = 2;  // of 3: backward still runs
  StepTimes times = timer.take();
  EXPECT_EQ(times[StepPart::kForward], 1);
  EXPECT_EQ(times[StepPart::kBackward], 0) << "not known yet";
  device.passed = device.given;
  times = timer.take();
  EXPECT_EQ(times[StepPart::kForward], 0);
  EXPECT_EQ(times[StepPart::kBackward], 3) << "comes with the next record";
}

TEST(DeviceTimeline, UsesItsMarksAgain) {
  FakeDevice device;
  DeviceTimeline timeline([&] { return std::make_unique<FakeMark>(device); });
  double forward = 0;
  for (int i = 0; i < 1000; ++i) {
    device.now = i;
    timeline.end_interval(StepPart::kForward);
    device.passed = device.given;
    if (i % 10 == 9) forward += timeline.take()[StepPart::kForward];
  }
  EXPECT_EQ(forward, 999) << "the first mark begins the time line";
  EXPECT_LE(device.made, 12);
}

// Without a record for long: what has been passed is added up meanwhile.
TEST(DeviceTimeline, DoesNotPileUp) {
  FakeDevice device;
  DeviceTimeline timeline([&] { return std::make_unique<FakeMark>(device); });
  for (int i = 0; i < 10000; ++i) {
    device.now = i;
    timeline.end_interval(StepPart::kBackward);
    device.passed = device.given;
  }
  EXPECT_EQ(timeline.take()[StepPart::kBackward], 9999);
  EXPECT_LE(device.made, 70);
}

double split_of(const Json& record) {
  double sum = 0;
  for (const char* part :
       {"data_wait_s", "forward_s", "backward_s", "exposed_communication_s", "optimizer_s", "other_s"})
    sum += record.at(part).get<double>();
  return sum;
}

// A millisecond passes with each look at it, whoever looks: a busy machine's pauses would fall between the phases.
class TickingClock : public FakeClock {
 public:
  MonotonicTime now() override {
    advance(milliseconds(1));
    return FakeClock::now();
  }
};

// What the phases measure must be what the loop measures around them, on the same clock.
void check_sum(Rig& rig) {
  TickingClock clock;
  PhaseTimer timer(make_timeline(at::kCPU, clock));
  rig.marker.watch([&](Phase phase, int64_t) { timer.enter(phase); });
  LoopContext context{rig.comms.gradients, rig.vote, rig.stop, rig.marker, rig.records, clock};
  if (rig.rank == 0) context.timer = &timer;
  Loop loop({rig.state, *rig.runner, *rig.loader, rig.evaluator.get(), *rig.saver, nullptr, context},
            rig.loop_options());
  loop.run();
  if (rig.rank != 0) return;
  const std::vector<Json> records = rig.records.of("step");
  double split = 0, whole = 0, communication = 0, checkpoint = 0;
  for (const Json& record : records) {
    split += split_of(record);
    whole += record.at("step_s").get<double>() * 50;  // steps a record
    communication += record.at("exposed_communication_s").get<double>();
    checkpoint += record.at("checkpoint_s").get<double>();
    for (const char* part : {"forward_s", "backward_s", "optimizer_s"}) EXPECT_GT(record.at(part), 0.0) << part;
  }
  EXPECT_NEAR(split, whole, 0.02 * whole);
  EXPECT_EQ(communication > 0, rig.world > 1);
  EXPECT_GT(checkpoint, 0);
}

RunPlan timed_plan(const std::string& output) {
  RunPlan plan = small_plan(output);
  plan.train.epochs = 40;
  plan.log = steps(50);
  plan.evaluate = epochs(10);
  plan.checkpoint.every = steps(70);
  return plan;
}

TEST(StepRecords, TheSplitAddsUpToTheSteps) {
  TempDir directory;
  Rig rig(timed_plan(directory.path()), alone());
  check_sum(rig);
}

TEST(StepRecords, TheSplitAddsUpOnTwoRanks) {
  TempDir directory;
  EXPECT_EQ(test::run_ranks(2,
                            [&](int, const CommOptions& options) {
                              Rig rig(timed_plan(directory.path()), make_comms(options));
                              check_sum(rig);
                            }),
            test::all_succeed(2));
}

struct LoggedSteps {
  explicit LoggedSteps(const SpeedScale& scale) : log(records, scale, nullptr) {}
  Json write(const TrainState& state) {
    log.write(state, {});
    return records.records.back();
  }
  testing::KeptRecords records;
  StepLog log;
};

// Two ranks on two devices of 1e12 each: C, the samples of all ranks, over the time of every step, the slow first one
// too.
TEST(Trap46ThroughputOfAllRanks, CountsEverySampleAndEveryStep) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  const int64_t flops = 3 * 2 * (784 * 256 + 256 * 256 + 256 * 10);
  LoggedSteps logged({5, flops, 2e12});
  logged.log.add(3.0, 0, 1000);
  logged.log.add(1.0, 0, 1000);
  const Json record = logged.write(rig.state);
  EXPECT_EQ(record.at("samples_per_s"), 500.0);
  EXPECT_EQ(record.at("step_s"), 2.0);
  EXPECT_DOUBLE_EQ(record.at("mfu"), 500.0 * static_cast<double>(flops) / 2e12);
}

TEST(Trap46ThroughputOfAllRanks, WithoutAPeakThereIsNoMfu) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  LoggedSteps logged({5, 1000, std::nullopt});
  logged.log.add(1.0, 0, 1000);
  EXPECT_TRUE(logged.write(rig.state).at("mfu").is_null());
}

TEST(Trap46ThroughputOfAllRanks, OnTwoRanksItIsTheSumOfBoth) {
  TempDir directory;
  EXPECT_EQ(test::run_ranks(2,
                            [&](int rank, const CommOptions& options) {
                              RunPlan plan = small_plan(directory.path());
                              Rig rig(plan, make_comms(options));
                              rig.runner->hooks().on_gradients = [&](int64_t) {
                                rig.clock.advance(std::chrono::seconds(2));
                              };
                              rig.run();
                              if (rank != 0) return;
                              const std::vector<Json> records = rig.records.of("step");
                              EXPECT_EQ(records[0].at("samples_per_s"), 10 / 2.0);
                              EXPECT_EQ(records[4].at("samples_per_s"), 6 / 2.0) << "the short last batch, not padded";
                            }),
            test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain
