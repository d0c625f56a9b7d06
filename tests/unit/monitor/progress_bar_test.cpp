#include "monitor/progress_bar.h"

#include <gtest/gtest.h>

#include "monitor/record.h"
#include "sink_capture.h"
#include "support/fake_clock.h"

namespace gputrain {
namespace {

using testing::Capture;
using testing::FakeClock;

class ProgressBarTest : public ::testing::Test {
 protected:
  std::string step(int64_t step) {
    StepRecord record;
    record.step = step;
    record.loss = 0.5;
    record.lr = 0.002;
    record.samples_per_s = 5120;
    return dump_line(to_json(record));
  }
  void start() { bar_.record("start", R"({"kind":"start","total_steps":200})"); }

  FakeClock clock_;
  Capture capture_;
  ProgressBar bar_{{capture_.fd(), 80, &clock_}};
};

TEST_F(ProgressBarTest, RedrawsOneLine) {
  start();
  bar_.record("step", step(50));
  EXPECT_EQ(capture_.take(), "");  // only a tick draws
  bar_.tick();
  EXPECT_EQ(capture_.take(),
            "\r\x1b[2K[######.....................] 50/200  loss 0.5  lr 0.002  5120 samples/s  eta -");
  bar_.tick();
  EXPECT_EQ(capture_.take(), "");  // nothing new
  clock_.advance(std::chrono::seconds(5));
  bar_.record("step", step(99));
  bar_.record("step", step(100));
  bar_.tick();
  EXPECT_EQ(capture_.take(),
            "\r\x1b[2K[###########...........] 100/200  loss 0.5  lr 0.002  5120 samples/s  eta 10.0s");
}

TEST_F(ProgressBarTest, IsClearedBeforeANoticeAndRedrawnAfter) {
  start();
  bar_.record("step", step(50));
  bar_.tick();
  capture_.take();
  bar_.notice("rank 1 was killed");
  EXPECT_EQ(capture_.take(), "\r\x1b[2K");
  bar_.notice("again");
  EXPECT_EQ(capture_.take(), "");
  bar_.tick();
  EXPECT_EQ(capture_.take().substr(0, 14), "\r\x1b[2K[######..");
  bar_.record("eval", "{}");
  EXPECT_EQ(capture_.take(), "\r\x1b[2K");
}

TEST_F(ProgressBarTest, FitsTheTerminal) {
  ProgressBar narrow({capture_.fd(), 20, &clock_});
  narrow.record("start", R"({"total_steps":200})");
  narrow.record("step", step(200));
  narrow.tick();
  EXPECT_EQ(capture_.take(), "\r\x1b[2K200/200  loss 0.5  ");
}

TEST_F(ProgressBarTest, WithoutATotalThereIsNoBar) {
  bar_.record("step", step(7));
  bar_.tick();
  EXPECT_EQ(capture_.take(), "\r\x1b[2K7  loss 0.5  lr 0.002  5120 samples/s");
}

TEST_F(ProgressBarTest, CloseLeavesTheLastStateOnItsOwnLine) {
  bar_.record("step", step(7));
  bar_.tick();
  capture_.take();
  bar_.close();
  EXPECT_EQ(capture_.take(), "\n");
  bar_.tick();
  bar_.close();
  EXPECT_EQ(capture_.take(), "");
}

TEST_F(ProgressBarTest, ForeignTextDrawsNothing) {
  bar_.record("start", R"({"total_steps":"x"})");
  bar_.record("step", "not json");
  bar_.tick();
  EXPECT_EQ(capture_.take(), "");
}

}  // namespace
}  // namespace gputrain
