#include "monitor/console.h"

#include <algorithm>
#include <csignal>

#include <gtest/gtest.h>

#include "monitor/record.h"
#include "sink_capture.h"
#include "support/fake_clock.h"

namespace gputrain {
namespace {

using testing::Capture;
using testing::FakeClock;

std::string stamped(Json record) {
  Json line = {{"ts", "2026-11-30T04:05:06.123456Z"}, {"mono_s", 1.5}, {"attempt", 2}};
  line.update(record);
  return dump_line(line);
}

std::string step_line(int64_t step, double loss = 0.25) {
  StepRecord record;
  record.step = step;
  record.updates = step;
  record.epoch = static_cast<double>(step) / 235;
  record.loss = loss;
  record.lr = 2e-3;
  record.grad_norm = 1.25;
  record.samples_per_s = 5120;
  record.data_wait_s = 0.001;
  record.step_s = 0.05;
  return stamped(to_json(record));
}

class ConsoleTest : public ::testing::Test {
 protected:
  Console make(bool terminal, bool steps = true) {
    return Console({capture_.fd(), terminal, steps, std::chrono::seconds(1), &clock_});
  }
  void start(Console& console, int64_t resumed_step = 0) {
    console.record("start", stamped({{"kind", "start"},
                                     {"run_id", "3f2a"},
                                     {"world_size", 2},
                                     {"resumed_step", resumed_step},
                                     {"resumed_from", "checkpoints/step-00000014"},
                                     {"total_steps", 1175}}));
  }
  FakeClock clock_;
  Capture capture_;
};

TEST_F(ConsoleTest, AResumedRunSaysWhatChanged) {
  Console console = make(true);
  console.record("start", stamped({{"kind", "start"},
                                   {"run_id", "ab"},
                                   {"world_size", 2},
                                   {"resumed_step", 4},
                                   {"resumed_from", "step-00000004"},
                                   {"changes",
                                    {{{"key", "optimizer.lr"}, {"from", 0.001}, {"to", 0.5}},
                                     {{"key", "log.every"}, {"from", "auto"}, {"to", "5 steps"}}}}}));
  EXPECT_EQ(capture_.take(),
            "run ab, attempt 2: 2 ranks, resuming from step 4 (step-00000004)\n"
            "changed since the last launch: optimizer.lr 0.001 -> 0.5, log.every auto -> 5 steps\n");
}

TEST_F(ConsoleTest, StartNamesRunAttemptAndWhereItResumes) {
  Console console = make(true);
  start(console);
  EXPECT_EQ(capture_.take(), "run 3f2a, attempt 2: 2 ranks, from the start\n");
  start(console, 14);
  EXPECT_EQ(capture_.take(), "run 3f2a, attempt 2: 2 ranks, resuming from step 14 (checkpoints/step-00000014)\n");
}

TEST_F(ConsoleTest, UtilizationIsShownWhereItIsKnown) {
  Console console = make(true);
  StepRecord record;
  record.step = 1;
  record.step_s = 1;
  record.mfu = 0.4123;
  console.record("step", stamped(to_json(record)));
  EXPECT_NE(capture_.take().find(" samples/s  wait   0.0%  mfu 41.2%  eta "), std::string::npos);
}

TEST_F(ConsoleTest, StepLinesAreAligned) {
  Console console = make(true);
  start(console);
  capture_.take();
  console.record("step", step_line(1));
  EXPECT_EQ(capture_.take(),
            "step    1/1175  epoch   0.00  loss      0.25  lr 2.000e-03  grad     1.25     5120 samples/s  wait   2.0% "
            " eta -\n");
  clock_.advance(std::chrono::seconds(10));
  console.record("step", step_line(101, NAN));
  EXPECT_EQ(capture_.take(),
            "step  101/1175  epoch   0.43  loss       nan  lr 2.000e-03  grad     1.25     5120 samples/s  wait   0.0% "
            " eta 1m 47s\n");
}

TEST_F(ConsoleTest, OffATerminalEachLineStartsWithItsTime) {
  Console console = make(false);
  start(console);
  EXPECT_EQ(capture_.take(), "2026-11-30T04:05:06Z  run 3f2a, attempt 2: 2 ranks, from the start\n");
  console.notice("two\nlines");
  EXPECT_EQ(capture_.take(), "2026-11-30T04:05:06Z  two\n2026-11-30T04:05:06Z  lines\n");
}

TEST_F(ConsoleTest, ShowsAtMostOneStepASecondAndTheLastOne) {
  Console console = make(false);
  start(console);
  capture_.take();
  std::string shown;
  for (int64_t step = 1; step <= 1175; ++step) {
    console.record("step", step_line(step));
    clock_.advance(std::chrono::milliseconds(2));
    shown += capture_.take();
  }
  // 2.35 s: at 0, 1, 2 s and the last step.
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 4);
  EXPECT_NE(shown.find("step    1/1175"), std::string::npos);
  EXPECT_NE(shown.find("step  501/1175"), std::string::npos);
  EXPECT_NE(shown.find("step 1001/1175"), std::string::npos);
  EXPECT_NE(shown.find("step 1175/1175"), std::string::npos);
}

TEST_F(ConsoleTest, WaitShareCountsOnlyTheStepsSinceThePreviousRecord) {
  Console console = make(true);
  start(console);
  console.record("step", step_line(1));
  console.record("step", step_line(500));  // held back
  capture_.take();
  clock_.advance(std::chrono::seconds(1));
  console.record("step", step_line(501));
  EXPECT_NE(capture_.take().find("wait   2.0%"), std::string::npos);
}

TEST_F(ConsoleTest, CloseShowsTheStepThatWasHeldBack) {
  Console console = make(true);
  start(console);
  console.record("step", step_line(1));
  console.record("step", step_line(2));
  capture_.take();
  console.close();
  EXPECT_EQ(capture_.take().substr(0, 14), "step    2/1175");
  console.close();
  EXPECT_EQ(capture_.take(), "");
}

TEST_F(ConsoleTest, WithoutStepsTheOtherKindsRemain) {
  Console console = make(true, false);
  start(console);
  capture_.take();
  console.record("step", step_line(1));
  console.close();
  EXPECT_EQ(capture_.take(), "");
  EvalRecord eval;
  eval.step = 235;
  eval.loss = 0.4311;
  eval.metrics = {{"accuracy", 0.8532}};
  eval.samples = 10000;
  eval.seconds = 1.25;
  console.record("eval", stamped(to_json(eval)));
  EXPECT_EQ(capture_.take(), "eval  step 235  loss 0.4311  accuracy 0.8532  (10000 samples in 1.2s)\n");
  console.record("checkpoint",
                 stamped(to_json(CheckpointRecord{235, "checkpoints/step-00000235", 1536, 0.03, "best"})));
  EXPECT_EQ(capture_.take(), "saved step 235  checkpoints/step-00000235  (best, 1.5 KiB in 0.0s)\n");
  console.record("warning", stamped(warning_record("pin_memory is off")));
  EXPECT_EQ(capture_.take(), "warning: pin_memory is off\n");
  console.record("notice", stamped({{"kind", "notice"}, {"text", "shown by notice()"}}));
  console.record("failure", stamped({{"kind", "failure"}}));
  EXPECT_EQ(capture_.take(), "");
}

TEST_F(ConsoleTest, ForeignBytesAreMadePrintable) {
  Console console = make(true);
  console.notice("\x1b[31mred\xff");
  EXPECT_EQ(capture_.take(), "\\x1b[31mred\\xff\n");
}

TEST_F(ConsoleTest, RecordsOfAnyShapeNeverThrow) {
  Console console = make(true);
  for (const std::string kind : {"start", "step", "eval", "checkpoint", "warning"}) {
    EXPECT_NO_THROW(console.record(kind, "not json"));
    EXPECT_NO_THROW(console.record(kind, "[]"));
    EXPECT_NO_THROW(console.record(kind, R"({"world_size":"x","samples":"x","bytes":[],"total_steps":"x","step":{}})"));
  }
}

TEST_F(ConsoleTest, AFullOrClosedPipeIsIgnored) {
  std::signal(SIGPIPE, SIG_IGN);
  Console console = make(true);
  const std::string line(1000, 'x');
  for (int i = 0; i < 1000; ++i) console.notice(line);  // 1 MB into a 64 KiB pipe: returns
  EXPECT_GE(capture_.take().size(), 60000u);
  capture_.close_reader();
  EXPECT_NO_THROW(console.notice("nobody reads"));
}

}  // namespace
}  // namespace gputrain
