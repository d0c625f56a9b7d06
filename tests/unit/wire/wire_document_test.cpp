// WIRE.md says what the code does: its table of messages and its golden bytes.
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "sample_messages.h"
#include "util/text.h"
#include "wire/codec.h"

namespace gputrain {
namespace {

std::string document() {
  std::ifstream file(std::string(GPUTRAIN_SOURCE_DIR) + "/src/wire/WIRE.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(WireDocumentTest, ListsEveryMessageWithItsFields) {
  const std::string text = document();
  const auto begin = text.find("| type | name |");
  const auto end = text.find("\n\n", begin);
  ASSERT_NE(begin, std::string::npos);
  std::vector<std::string> documented;
  for (const auto& line : split(text.substr(begin, end - begin), '\n')) {
    const auto cells = split(line, '|');
    if (cells.size() < 6 || trim(cells[1]) == "type" || trim(cells[1]) == "---" || cells[1] == "---") continue;
    documented.push_back(std::string(trim(cells[1])) + " " + std::string(trim(cells[2])) + ": " +
                         std::string(trim(cells[3])));
  }
  std::vector<std::string> actual;
  for (const Message& message : testing::every_message()) {
    std::vector<std::string> fields;
    const Json body = to_json(message);
    for (const auto& item : body.items()) fields.push_back(item.key());
    actual.push_back(std::to_string(message_type(message)) + " " + std::string(message_name(message)) + ": " +
                     (fields.empty() ? "-" : join(fields, ", ")));
  }
  EXPECT_EQ(documented, actual);
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(bytes[i]));
    text += digits;
    text += i % 16 == 15 || i + 1 == bytes.size() ? "\n" : " ";
  }
  return text;
}

std::string golden(const std::string& name) {
  const std::string text = document();
  const auto begin = text.find("```\n", text.find("\n" + name + " {")) + 4;
  return text.substr(begin, text.find("```", begin) - begin);
}

TEST(WireDocumentTest, GoldenBytesAreTheEncoders) {
  EXPECT_EQ(hex(encode(Heartbeat{7})), golden("Heartbeat"));
  EXPECT_EQ(hex(encode(Stop{2, StopReason::kPreempted, 30000})), golden("Stop"));
  EXPECT_EQ(hex(encode(Record{R"({"kind":"step","loss":0.5})"})), golden("Record"));
}

TEST(WireDocumentTest, StatesVersionAndLimits) {
  const std::string text = document();
  EXPECT_NE(text.find("# The wire protocol, version " + std::to_string(kWireVersion) + "\n"), std::string::npos);
  EXPECT_NE(text.find("at most " + std::to_string(kMaxPayload)), std::string::npos);
}

}  // namespace
}  // namespace gputrain
