#include "wire/connection.h"

#include <optional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/process.h"
#include "sys/sockets.h"

namespace gputrain {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One Connection under test; the other end of its socket is played by hand.
class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() {
    alarm(20);
    ignore_sigpipe();
    auto [ours, theirs] = unix_socket_pair();
    peer = std::move(theirs);
    fcntl(peer.get(), F_SETFL, O_NONBLOCK);
    own_fd = ours.release();
    connection.emplace(loop, own_fd, own_fd, handlers());
  }
  ~ConnectionTest() override { alarm(0); }

  Connection::Handlers handlers() {
    return {[this](Message message) {
              received.emplace_back(message_name(message));
              if (on_message) on_message(message);
            },
            [this](const std::string& text) {
              ++closes;
              problem = text;
            }};
  }
  void run_for(int ms) {
    loop.after(milliseconds(ms), [this] { loop.stop(); });
    loop.run();
  }
  void peer_sends(const std::string& bytes) {
    ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Reads what is there now, letting the loop refill the socket.
  std::vector<Message> peer_reads(int rounds = 1) {
    std::vector<Message> messages;
    std::string chunk(1 << 20, '\0');
    for (int round = 0; round < rounds; ++round) {
      for (ssize_t length; (length = recv(peer.get(), chunk.data(), chunk.size(), 0)) > 0;)
        peer_decoder.feed({chunk.data(), static_cast<size_t>(length)});
      while (auto message = peer_decoder.next()) messages.push_back(std::move(*message));
      run_for(1);
    }
    return messages;
  }
  static std::vector<std::string> names(const std::vector<Message>& messages) {
    std::vector<std::string> result;
    for (const auto& message : messages) result.emplace_back(message_name(message));
    return result;
  }

  EventLoop loop;
  UniqueFd peer;
  int own_fd = -1;
  std::optional<Connection> connection;
  Decoder peer_decoder;
  std::vector<std::string> received;
  std::function<void(const Message&)> on_message;
  int closes = 0;
  std::string problem;
};

const RankRecord kRecord{1, 0, std::string(1000, 'r')};

TEST_F(ConnectionTest, DeliversInOrderThenTellsTheEnd) {
  peer_sends(encode(Go{1}) + encode(Kill{1}) + encode(Bye{}).substr(0, 5));
  peer.reset();
  run_for(10);
  EXPECT_THAT(received, ElementsAre("Go", "Kill"));
  EXPECT_EQ(closes, 1);
  EXPECT_EQ(problem, "");
  EXPECT_TRUE(connection->closed());
  EXPECT_EQ(fcntl(own_fd, F_GETFD), -1) << "the descriptor is closed";
  connection->send(Bye{});  // dropped
  connection->drain();
  run_for(5);
  EXPECT_EQ(closes, 1);
}

TEST_F(ConnectionTest, BrokenFrameClosesWithAReason) {
  peer_sends(encode(Go{1}) + "what?" + encode(Kill{1}));
  run_for(10);
  EXPECT_THAT(received, ElementsAre("Go"));
  EXPECT_EQ(closes, 1);
  EXPECT_THAT(problem, HasSubstr("does not start with GPTW"));
}

TEST_F(ConnectionTest, SeparateDescriptorsForEachDirection) {
  int in[2], out[2];
  ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
  Connection pipes(loop, in[0], out[1], handlers());
  pipes.send(Heartbeat{7});
  const std::string frame = encode(Go{1});
  ASSERT_EQ(write(in[1], frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  run_for(5);
  EXPECT_THAT(received, ElementsAre("Go"));
  char chunk[100];
  EXPECT_EQ(std::string(chunk, static_cast<size_t>(read(out[0], chunk, sizeof chunk))), encode(Heartbeat{7}));
  // Nobody reads any more, though the other direction is open: the next write finds out.
  close(out[0]);
  pipes.send(Heartbeat{8});
  EXPECT_EQ(closes, 0) << "send() called a handler";
  run_for(5);
  EXPECT_EQ(closes, 1);
  EXPECT_EQ(problem, "");
  close(in[1]);
}

TEST_F(ConnectionTest, LastWordsOfAPeerThatHasGoneAreHeardBeforeTheEnd) {
  peer_sends(encode(WorkerError{}));
  peer.reset();
  connection->send(Go{1});  // EPIPE before anything was read
  EXPECT_EQ(closes, 0);
  run_for(10);
  EXPECT_THAT(received, ElementsAre("WorkerError"));
  EXPECT_EQ(closes, 1);
  EXPECT_EQ(problem, "");
}

TEST_F(ConnectionTest, DrainDeliversWithoutTheLoop) {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += encode(Heartbeat{i});
  peer_sends(many);
  connection->drain();
  EXPECT_EQ(received.size(), 3000u);
  connection->drain();
  EXPECT_EQ(received.size(), 3000u);
  EXPECT_FALSE(connection->closed());
}

TEST_F(ConnectionTest, ControlOvertakesQueuedBulk) {
  // More than the socket takes: the rest is queued.
  for (int i = 0; i < 3000; ++i) connection->send(kRecord);
  EXPECT_GT(connection->queued_bytes(), 1u << 20);
  connection->send(RankError{});
  const auto messages = peer_reads(200);
  ASSERT_EQ(messages.size(), 3001u);
  const auto names_seen = names(messages);
  const auto place = std::find(names_seen.begin(), names_seen.end(), "RankError") - names_seen.begin();
  EXPECT_LT(place, 1500) << "it waited for the records";
  EXPECT_GT(place, 0) << "the frame that was being written is finished first";
  EXPECT_EQ(connection->queued_bytes(), 0u);
}

TEST_F(ConnectionTest, TheEndOfARankFollowsItsRecordsAsFarAsCreditReaches) {
  for (int i = 0; i < 3000; ++i) connection->send(kRecord);
  connection->send(RankExited{});
  EXPECT_EQ(names(peer_reads(200)).back(), "RankExited");

  connection->limit_bulk(1);
  for (int i = 0; i < 3; ++i) connection->send(kRecord);  // the first spends what was left
  connection->send(RankExited{});
  EXPECT_THAT(names(peer_reads(3)), ElementsAre("RankRecord", "RankExited")) << "it waits for nobody's credit";
}

TEST_F(ConnectionTest, MessagesAboutRecordsKeepTheirPlace) {
  connection->limit_bulk(1);
  connection->send(kRecord);  // goes: one byte was left
  connection->send(kRecord);
  connection->send(RankSync{1, 0, 5});
  connection->send(RankDone{});
  connection->send(Heartbeat{1});
  EXPECT_THAT(names(peer_reads(3)), ElementsAre("RankRecord", "Heartbeat"));
  connection->add_credit(100'000);
  EXPECT_THAT(names(peer_reads(3)), ElementsAre("RankRecord", "RankSync", "RankDone"));
  connection->send(RankSync{1, 0, 6});
  EXPECT_THAT(names(peer_reads(3)), ElementsAre("RankSync"));
}

TEST_F(ConnectionTest, CreditIsSpentByFrameSize) {
  const auto frame = static_cast<int64_t>(encode(kRecord).size());
  connection->limit_bulk(3 * frame);
  for (int i = 0; i < 10; ++i) connection->send(kRecord);
  EXPECT_EQ(peer_reads(3).size(), 3u);
  EXPECT_EQ(connection->queued_bytes(), static_cast<size_t>(7 * frame));
  connection->add_credit(2 * frame - 1);
  EXPECT_EQ(peer_reads(3).size(), 2u);
  connection->add_credit(1);
  EXPECT_EQ(peer_reads(3).size(), 0u) << "nothing is left but what the last frame overdrew";
  connection->add_credit(std::numeric_limits<int64_t>::max());
  connection->add_credit(std::numeric_limits<int64_t>::max());  // no overflow
  EXPECT_EQ(peer_reads(3).size(), 5u);
}

TEST_F(ConnectionTest, TellsTheSizeOfTheMessageBeingHandled) {
  std::vector<size_t> sizes;
  on_message = [&](const Message&) { sizes.push_back(connection->last_frame_bytes()); };
  peer_sends(encode(Bye{}) + encode(kRecord));
  run_for(5);
  EXPECT_THAT(sizes, ElementsAre(encode(Bye{}).size(), encode(kRecord).size()));
}

TEST_F(ConnectionTest, HandlerMayDestroyTheConnection) {
  on_message = [&](const Message&) { connection.reset(); };
  peer_sends(encode(Go{1}) + encode(Kill{1}));
  run_for(10);
  EXPECT_THAT(received, ElementsAre("Go"));
  EXPECT_EQ(closes, 0) << "who destroys it knows";
  EXPECT_EQ(fcntl(own_fd, F_GETFD), -1);
}

TEST_F(ConnectionTest, DestroyedWithQueuedBytesIsQuiet) {
  for (int i = 0; i < 3000; ++i) connection->send(kRecord);
  connection.reset();
  peer.reset();
  run_for(10);
  EXPECT_EQ(closes, 0);
}

TEST_F(ConnectionTest, LargeMessageArrivesWhole) {
  on_message = [&](const Message& message) {
    EXPECT_EQ(std::get<RankRecord>(message).record.size(), 15u << 20);
    loop.stop();
  };
  Connection other(loop, peer.get(), peer.get(), {[](Message) {}, [](const std::string&) {}});
  peer.release();
  other.send(RankRecord{1, 2, std::string(15 << 20, 'x')});
  loop.run();
  EXPECT_EQ(received.size(), 1u);
}

}  // namespace
}  // namespace gputrain
