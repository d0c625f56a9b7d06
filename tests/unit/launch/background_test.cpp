#include "launch/background.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace gputrain {
namespace {

TEST(BackgroundTest, RunsJobsInOrderElsewhereAndTellsHere) {
  EventLoop loop;
  Background background(loop);
  const auto here = std::this_thread::get_id();
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    background.post(
        [&, i] {
          EXPECT_NE(std::this_thread::get_id(), here);
          order.push_back(i);
        },
        [&, i](const Background::Problem& problem) {
          EXPECT_EQ(std::this_thread::get_id(), here);
          EXPECT_FALSE(problem);
          if (i == 2) loop.stop();
        });
  }
  loop.after(std::chrono::seconds(10), [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(BackgroundTest, HandsOverErrors) {
  EventLoop loop;
  Background background(loop);
  std::vector<ErrorKind> kinds;
  auto done = [&](const Background::Problem& problem) { kinds.push_back(problem->kind); };
  background.post([] { throw Error(ErrorKind::kOutput, "full"); }, done);
  background.post([] { throw std::runtime_error("odd"); }, done);
  background.drain();
  EXPECT_EQ(kinds, (std::vector<ErrorKind>{ErrorKind::kOutput, ErrorKind::kInternal}));
}

TEST(BackgroundTest, TheLoopGoesOnMeanwhile) {
  EventLoop loop;
  Background background(loop);
  std::atomic<bool> release{false};
  int ticks = 0;
  background.post(
      [&] {
        while (!release) std::this_thread::yield();
      },
      [&](const auto&) { loop.stop(); });
  std::function<void()> tick = [&] {
    release = ++ticks >= 5;
    loop.after(std::chrono::milliseconds(1), tick);
  };
  tick();
  loop.run();
  EXPECT_GE(ticks, 5);
}

TEST(BackgroundTest, DestructionForgetsWhatWaits) {
  EventLoop loop;
  std::atomic<int> ran{0};
  std::atomic<bool> release{false};
  {
    Background background(loop);
    background.post(
        [&] {
          ++ran;
          while (!release) std::this_thread::yield();
        },
        [](const auto&) { FAIL(); });
    while (ran == 0) std::this_thread::yield();
    background.post([&] { ++ran; }, [](const auto&) { FAIL(); });
    release = true;
  }
  EXPECT_LE(ran, 2);
}

}  // namespace
}  // namespace gputrain
