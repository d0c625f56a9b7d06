#include "sys/event_loop.h"

#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sys/fd.h"
#include "util/error.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  void put() const { ASSERT_EQ(write(write_end.get(), "x", 1), 1); }
  void take() const {
    char byte;
    ASSERT_EQ(read(read_end.get(), &byte, 1), 1);
  }
  UniqueFd read_end, write_end;
};

class EventLoopTest : public testing::Test {
 protected:
  EventLoopTest() { alarm(10); }
  ~EventLoopTest() override { alarm(0); }
  EventLoop loop;
};

TEST_F(EventLoopTest, TimersFireInOrderOfTimeThenOfSetting) {
  std::string order;
  loop.after(milliseconds(20), [&] {
    order += 'd';
    loop.stop();
  });
  loop.after(milliseconds(10), [&] { order += 'c'; });
  loop.after(milliseconds(0), [&] { order += 'a'; });
  loop.after(milliseconds(0), [&] { order += 'b'; });
  const auto start = std::chrono::steady_clock::now();
  loop.run();
  EXPECT_EQ(order, "abcd");
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(20)) << "a timer fired early";
}

TEST_F(EventLoopTest, CancelledTimersDoNotFireAndUnknownIdsAreIgnored) {
  std::string fired;
  EventLoop::TimerId later = 0;
  const auto first = loop.after(milliseconds(1), [&] { fired += 'a'; });
  loop.after(milliseconds(0), [&] {
    loop.cancel(first);
    loop.cancel(later);
    loop.cancel(99999);
  });
  later = loop.after(milliseconds(0), [&] { fired += 'b'; });  // due in the same round as the one that cancels it
  loop.after(milliseconds(10), [&] { loop.stop(); });
  loop.run();
  loop.cancel(first);
  EXPECT_EQ(fired, "");
}

TEST_F(EventLoopTest, TimerThatSetsItselfAgainDoesNotStarveDescriptors) {
  Pipe pipe;
  pipe.put();
  int fired = 0;
  std::function<void()> again = [&] {
    ++fired;
    loop.after(milliseconds(0), again);
  };
  loop.after(milliseconds(0), again);
  loop.watch_readable(pipe.read_end.get(), [&] { loop.stop(); });
  loop.run();
  EXPECT_LE(fired, 2);
}

TEST_F(EventLoopTest, ReadableUntilRead) {
  Pipe pipe;
  int calls = 0;
  loop.watch_readable(pipe.read_end.get(), [&] {
    if (++calls == 3) {
      pipe.take();
      loop.after(milliseconds(10), [&] { loop.stop(); });
    }
  });
  pipe.put();
  loop.run();
  EXPECT_EQ(calls, 3);
}

TEST_F(EventLoopTest, EndOfFileIsReadable) {
  Pipe pipe;
  pipe.write_end.reset();
  loop.watch_readable(pipe.read_end.get(), [&] { loop.stop(); });
  loop.run();
}

TEST_F(EventLoopTest, WriterHearsThatTheReaderHasGone) {
  Pipe pipe;
  while (write(pipe.write_end.get(), "x", 1) == 1) {
  }
  pipe.read_end.reset();
  loop.watch_writable(pipe.write_end.get(), [&] { loop.stop(); });
  loop.run();
}

TEST_F(EventLoopTest, CallbackMayRemoveItselfAndOthers) {
  Pipe one, two;
  one.put();
  two.put();
  std::string calls;
  // Both are ready in one round; whichever comes first removes both.
  const auto remove_both = [&](char name) {
    calls += name;
    loop.unwatch_readable(one.read_end.get());
    loop.unwatch_readable(two.read_end.get());
    loop.after(milliseconds(10), [&] { loop.stop(); });
  };
  loop.watch_readable(one.read_end.get(), [&] { remove_both('1'); });
  loop.watch_readable(two.read_end.get(), [&] { remove_both('2'); });
  loop.run();
  EXPECT_EQ(calls.size(), 1u) << calls;
}

// The event queued for the old descriptor must not reach the new owner of its number.
TEST_F(EventLoopTest, ReusedDescriptorNumberGetsNoStaleEvent) {
  Pipe one, two;
  one.put();
  two.put();
  int stale = 0;
  std::vector<UniqueFd> replacements;
  const auto replace = [&](Pipe& other) {
    const int number = other.read_end.get();
    loop.unwatch_readable(one.read_end.get());
    loop.unwatch_readable(two.read_end.get());
    other.read_end.reset();
    Pipe quiet;
    ASSERT_EQ(dup2(quiet.read_end.get(), number), number);
    replacements.emplace_back(number);
    replacements.push_back(std::move(quiet.write_end));
    loop.watch_readable(number, [&] { ++stale; });
    loop.after(milliseconds(20), [&] { loop.stop(); });
  };
  loop.watch_readable(one.read_end.get(), [&] { replace(two); });
  loop.watch_readable(two.read_end.get(), [&] { replace(one); });
  loop.run();
  EXPECT_EQ(stale, 0);
}

TEST_F(EventLoopTest, ReaderAndWriterOfOneDescriptorAreIndependent) {
  Pipe pipe;
  int writes = 0;
  loop.watch_readable(pipe.write_end.get(), [] { FAIL() << "nothing can be read here"; });
  loop.watch_writable(pipe.write_end.get(), [&] {
    ++writes;
    loop.unwatch_writable(pipe.write_end.get());
    loop.after(milliseconds(10), [&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(writes, 1);
  loop.unwatch_readable(pipe.write_end.get());
  loop.unwatch_readable(pipe.write_end.get());  // twice is harmless
}

TEST_F(EventLoopTest, StopEndsTheRoundAtOnce) {
  Pipe one, two;
  one.put();
  two.put();
  int calls = 0;
  const auto stop = [&] {
    ++calls;
    loop.stop();
  };
  loop.watch_readable(one.read_end.get(), stop);
  loop.watch_readable(two.read_end.get(), stop);
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, WatchingWhatCannotBeWatchedIsAnError) {
  EXPECT_THROW(loop.watch_readable(-1, [] {}), Error);
  EXPECT_THROW(loop.watch_readable(12345, [] {}), Error);
  EXPECT_THROW(loop.watch_readable(12345, [] {}), Error) << "the failed watch was remembered";
}

TEST_F(EventLoopTest, SignalsArriveInTheLoop) {
  std::vector<int> seen;
  loop.watch_signals({SIGUSR1, SIGUSR2}, [&](int signal) {
    seen.push_back(signal);
    if (seen.size() == 2) loop.stop();
  });
  kill(getpid(), SIGUSR1);  // blocked: waits for run()
  loop.after(milliseconds(5), [] { kill(getpid(), SIGUSR2); });
  loop.run();
  EXPECT_EQ(seen, (std::vector<int>{SIGUSR1, SIGUSR2}));
}

}  // namespace
}  // namespace gputrain
