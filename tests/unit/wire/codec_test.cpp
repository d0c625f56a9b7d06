#include "wire/codec.h"

#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_messages.h"

namespace gputrain {
namespace {

using testing::every_message;
using ::testing::HasSubstr;

std::string frame(const std::string& body, int type, int version = kWireVersion, int64_t length = -1) {
  std::string bytes = "GPTW";
  const auto put = [&](int64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  put(version, 2);
  put(type, 2);
  put(length < 0 ? static_cast<int64_t>(body.size()) : length, 4);
  return bytes + body;
}

std::string refusal(const std::string& bytes) {
  Decoder decoder;
  decoder.feed(bytes);
  try {
    while (decoder.next()) {
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kInternal);
    EXPECT_THROW(decoder.next(), Error) << "the decoder went on behind a broken frame";
    return error.render();
  }
  return "accepted";
}

TEST(CodecTest, EveryMessageComesBackEqual) {
  for (int64_t first : {0, 1000}) {
    for (const Message& message : every_message(first)) {
      Decoder decoder;
      const std::string bytes = encode(message);
      decoder.feed(bytes);
      const auto decoded = decoder.next();
      ASSERT_TRUE(decoded) << message_name(message);
      EXPECT_EQ(decoded->index(), message.index());
      EXPECT_EQ(to_json(*decoded), to_json(message)) << message_name(message);
      EXPECT_EQ(encode(*decoded), bytes) << "not the same bytes: " << message_name(message);
      EXPECT_EQ(decoder.last_frame_bytes(), bytes.size());
      EXPECT_FALSE(decoder.next());
    }
  }
}

// Round trips cannot see two names swapped in the field table: here one message is read by hand.
TEST(CodecTest, FieldsHaveTheirNames) {
  RankExited exited;
  exited.attempt = 1;
  exited.rank = 2;
  exited.pid = 3;
  exited.code = 4;
  exited.signal = 5;
  exited.killed_by_us = true;
  exited.exec_errno = 6;
  exited.progress = {7, "backward", 8};
  exited.log_path = "path";
  exited.log_tail = "tail";
  exited.unix_micros = 9;
  EXPECT_EQ(
      dump_line(to_json(exited)),
      R"({"attempt":1,"rank":2,"pid":3,"code":4,"signal":5,"killed_by_us":true,"oom_killed":false,"exec_errno":6,)"
      R"("progress":{"step":7,"phase":"backward","collectives":8},"log_path":"path","log_tail":"tail","unix_micros":9})");
  RankError error{1, 2, {ErrorKind::kNonFinite, "m", "w", "h"}, {}};
  EXPECT_EQ(dump_line(to_json(error)["error"]),
            R"({"kind":"non_finite","message":"m","where":"w","hint":"h","culprit":-1})");
  Stop stop{3, StopReason::kPreempted, 30000};
  EXPECT_EQ(dump_line(to_json(stop)), R"({"attempt":3,"reason":"preempted","grace_ms":30000})");
}

TEST(CodecTest, TypesAreDistinct) {
  std::set<uint16_t> types;
  std::set<std::string_view> names;
  for (const Message& message : every_message()) {
    types.insert(message_type(message));
    names.insert(message_name(message));
  }
  EXPECT_EQ(types.size(), std::variant_size_v<Message>);
  EXPECT_EQ(names.size(), std::variant_size_v<Message>);
  EXPECT_EQ(message_name(RankExited()), "RankExited");
  EXPECT_EQ(message_name(Done()), "Done");
}

TEST(CodecTest, FramesMayBeCutAnywhere) {
  std::string stream;
  const auto messages = every_message();
  for (const Message& message : messages) stream += encode(message);
  const auto expect_all = [&](Decoder& decoder, size_t& next) {
    while (const auto message = decoder.next()) {
      ASSERT_LT(next, messages.size());
      ASSERT_EQ(to_json(*message), to_json(messages[next++]));
    }
  };
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    Decoder decoder;
    size_t next = 0;
    decoder.feed(std::string_view(stream).substr(0, cut));
    expect_all(decoder, next);
    decoder.feed(std::string_view(stream).substr(cut));
    expect_all(decoder, next);
    ASSERT_EQ(next, messages.size()) << "cut at " << cut;
  }
  Decoder decoder;
  size_t next = 0;
  for (const char byte : stream) {
    decoder.feed(std::string_view(&byte, 1));
    expect_all(decoder, next);
  }
  EXPECT_EQ(next, messages.size());
}

TEST(CodecTest, BrokenHeadersAreRefusedAsSoonAsTheyAreSeen) {
  EXPECT_THAT(refusal("HTTP/1.1 200 OK\r\n"), HasSubstr("does not start with GPTW"));
  EXPECT_THAT(refusal("GX"), HasSubstr("does not start with GPTW")) << "without waiting for a whole header";
  EXPECT_THAT(refusal(frame("{}", 42, 1)), HasSubstr("protocol version 1, this program speaks 2"));
  EXPECT_THAT(refusal(frame("", 42, kWireVersion, kMaxPayload + 1)),
              HasSubstr("16777217 bytes announced, limit 16777216"));
  EXPECT_THAT(refusal(frame("", 42, kWireVersion, 0xFFFFFFFF)), HasSubstr("4294967295 bytes announced"));
  EXPECT_THAT(refusal(frame("{}", 0)), HasSubstr("type 0: malformed message: unknown message type"));
  EXPECT_THAT(refusal(frame("{}", 65535)), HasSubstr("type 65535"));
}

TEST(CodecTest, LargestPayloadPassesAndOneByteMoreIsNotSent) {
  Record record;
  const size_t overhead = encode(record).size() - 12;
  record.json = std::string(kMaxPayload - overhead, 'x');
  Decoder decoder;
  decoder.feed(encode(record));
  EXPECT_EQ(std::get<Record>(decoder.next().value()).json.size(), record.json.size());
  record.json += 'x';
  EXPECT_THROW(encode(record), Error);
}

TEST(CodecTest, BodiesAreReadStrictly) {
  const int credit = message_type(Credit()), stop = message_type(Stop()), start = message_type(Start()),
            bye = message_type(Bye());
  EXPECT_EQ(refusal(frame(R"({"bytes": 5})", credit)), "accepted");
  EXPECT_EQ(refusal(frame("{}", bye)), "accepted");
  EXPECT_THAT(refusal(frame("", credit)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(frame("{", credit)), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(frame("[]", credit)), HasSubstr("Credit: malformed message: expected an object"));
  EXPECT_THAT(refusal(frame("{}", credit)), HasSubstr("Credit.bytes: malformed message: missing"));
  EXPECT_THAT(refusal(frame(R"({"bytes": 5, "more": 1})", credit)),
              HasSubstr("Credit: malformed message: unknown field"));
  EXPECT_THAT(refusal(frame(R"({"bytes": 5, "bytes": 6})", credit)), HasSubstr("appears twice"));
  for (const std::string value : {"\"5\"", "5.0", "true", "null", "[5]", "1e3"}) {
    EXPECT_THAT(refusal(frame("{\"bytes\": " + value + "}", credit)), HasSubstr("expected a whole number")) << value;
  }
  EXPECT_THAT(refusal(frame(R"({"bytes": 9223372036854775808})", credit)),
              HasSubstr("Credit.bytes: malformed message: number out of range"));
  EXPECT_EQ(refusal(frame(R"({"bytes": -9223372036854775808})", credit)), "accepted");
  EXPECT_THAT(refusal(frame(R"({"attempt": 2147483648, "reason": "none", "grace_ms": 0})", stop)),
              HasSubstr("Stop.attempt"));
  EXPECT_THAT(refusal(frame(R"({"attempt": 1, "reason": "bored", "grace_ms": 0})", stop)),
              HasSubstr("Stop.reason: malformed message: unknown word"));
  EXPECT_THAT(refusal(frame(R"({"attempt": 1, "reason": 1, "grace_ms": 0})", stop)), HasSubstr("expected a string"));

  Json body = to_json(Start());
  body["slots"] = {{{"rank", 0}, {"local_rank", 0}, {"device", -1}, {"threads", 1}}, {{"rank", 1}}};
  EXPECT_THAT(refusal(frame(body.dump(), start)), HasSubstr("Start.slots[1].local_rank: malformed message: missing"));
  body["slots"] = Json::object();
  EXPECT_THAT(refusal(frame(body.dump(), start)), HasSubstr("Start.slots: malformed message: expected a list"));
}

TEST(CodecTest, ProgressCountersUseAll64Bits) {
  const std::string text =
      R"({"attempt":1,"rank":0,"error":{"kind":"data","message":"","where":"","hint":"","culprit":-1},"progress":{"step":18446744073709551615,"phase":"","collectives":0}})";
  EXPECT_EQ(refusal(frame(text, message_type(RankError()))), "accepted");
  std::string negative = text;
  negative.replace(negative.find("18446744073709551615"), 20, "-1");
  EXPECT_THAT(refusal(frame(negative, message_type(RankError()))),
              HasSubstr("RankError.progress.step: malformed message: number out of range"));
}

TEST(CodecTest, DeepNestingIsRefusedBeforeItIsParsed) {
  const int ready = message_type(Ready());
  const auto nested = [](int depth) {
    return R"({"body":)" + std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']') +
           "}";
  };
  EXPECT_EQ(refusal(frame(nested(63), ready)), "accepted");
  EXPECT_THAT(refusal(frame(nested(64), ready)), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refusal(frame(nested(5'000'000), ready)), HasSubstr("nested deeper than 64"));
  EXPECT_EQ(
      refusal(frame(R"({"body":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[[["})", ready)),
      "accepted")
      << "brackets in a text are text";
}

TEST(CodecTest, ForeignBytesInATextAreReplacedNotThrown) {
  RankExited exited;
  exited.log_tail = "a\xFF\xC3 b";
  Decoder decoder;
  decoder.feed(encode(exited));
  EXPECT_EQ(std::get<RankExited>(decoder.next().value()).log_tail, "a\xEF\xBF\xBD\xEF\xBF\xBD b");
}

TEST(CodecTest, StopReasonsHaveWords) {
  for (auto reason : {StopReason::kNone, StopReason::kPreempted, StopReason::kUserStop, StopReason::kInterrupted,
                      StopReason::kMaxDuration}) {
    EXPECT_EQ(stop_reason_from(to_string(reason)), reason);
  }
  EXPECT_EQ(stop_reason_from("bored"), StopReason::kNone);
}

}  // namespace
}  // namespace gputrain
