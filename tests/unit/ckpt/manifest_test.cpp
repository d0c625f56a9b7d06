#include "ckpt/manifest.h"

#include "ckpt/xxh3.h"
#include "unit/ckpt/ckpt_testing.h"

namespace gputrain {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Manifest sample() {
  const TensorSlice slice{"model.safetensors", {2, 3}, {0, 0}};
  return {1200,
          "run-1",
          {{"model.safetensors", 96, "0123456789abcdef"}, {"state.json", 3, "fedcba9876543210"}},
          {{"fc1.weight", {"F32", {2, 3}, {slice}}}, {"scale", {"F64", {}, {{"model.safetensors", {}, {}}}}}}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  const Error error = error_of([&] { parse_manifest(text, "dir/manifest.json"); });
  EXPECT_EQ(error.where, "dir/manifest.json");
  EXPECT_THAT(error.message, ::testing::StartsWith("not a valid manifest: "));
  return error.message.substr(std::string("not a valid manifest: ").size());
}

TEST(Manifest, TextIsReadableAndFixed) {
  const std::string compared = R"({
"format": 1,
"step": 1200,
"files": [
{"file":"model.safetensors","size":96,"xxh3":"0123456789abcdef"},
{"file":"state.json","size":3,"xxh3":"fedcba9876543210"}],
"tensors": {
"fc1.weight": {"dtype":"F32","shape":[2,3],"slices":[{"file":"model.safetensors","shape":[2,3],"offset":[0,0]}]},
"scale": {"dtype":"F64","shape":[],"slices":[{"file":"model.safetensors","shape":[],"offset":[]}]}},
)";
  EXPECT_EQ(manifest_text(sample()), compared + "\"xxh3\": \"" + xxh3_hex(compared) + "\",\n" +
                                         "\"run_id\": {\"id\":\"run-1\",\"xxh3\":\"" + xxh3_hex("run-1") + "\"}\n}\n");
}

TEST(Manifest, HashIsXxh3OfSeedZero) {
  // Published values: other implementations must agree with ours.
  EXPECT_EQ(xxh3_hex(""), "2d06800538d394c2");
  EXPECT_EQ(xxh3_hex("abc"), "78af5f94892f3950");
}

TEST(Manifest, ParseIsTheInverse) {
  EXPECT_EQ(parse_manifest(manifest_text(sample()), "m"), sample());
  EXPECT_EQ(parse_manifest(manifest_text({}), "m"), Manifest());
}

TEST(Manifest, TwoRunsDifferInTheRunIdOnly) {
  Manifest other = sample();
  other.run_id = "another";
  Json a = Json::parse(manifest_text(sample())), b = Json::parse(manifest_text(other));
  EXPECT_NE(a, b);
  a.erase("run_id");
  b.erase("run_id");
  EXPECT_EQ(a, b);
}

TEST(Manifest, EveryFlippedBitIsNoticed) {
  const std::string text = manifest_text(sample());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(damaged, "m"), Error) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(Manifest, EveryTruncationAndAnythingAddedIsNoticed) {
  const std::string text = manifest_text(sample());
  for (size_t length = 0; length < text.size(); ++length) refusal(text.substr(0, length));
  EXPECT_EQ(refusal(text + "\n"), "its bytes do not match its own hash");
  EXPECT_EQ(refusal(" " + text), "its bytes do not match its own hash");
  EXPECT_EQ(refusal(replaced(text, "\"step\": 1200", "\"step\":  1200")), "its bytes do not match its own hash");
}

TEST(Manifest, UnknownAndMissingItemsAreNamed) {
  const std::string text = manifest_text(sample());
  EXPECT_EQ(refusal(replaced(text, "\"step\": 1200,\n", "")), "the manifest lacks \"step\"");
  EXPECT_EQ(refusal(replaced(text, "\"format\": 1", "\"format\": 1,\"time\": 5")),
            "the manifest has the unknown item \"time\"");
  EXPECT_EQ(refusal(replaced(text, "\"format\": 1", "\"format\": 2")), "format 2, this gputrain reads 1");
  EXPECT_EQ(refusal(replaced(text, "\"size\":96,", "")), "a file lacks \"size\"");
  EXPECT_EQ(refusal(replaced(text, "\"size\":96,", "\"size\":96,\"mode\":1,")), "a file has the unknown item \"mode\"");
  EXPECT_EQ(refusal(replaced(text, "\"dtype\":\"F32\",", "")), "tensor \"fc1.weight\" lacks \"dtype\"");
  EXPECT_EQ(refusal(replaced(text, ",\"offset\":[0,0]", "")), "tensor \"fc1.weight\" lacks \"offset\"");
}

TEST(Manifest, WrongTypesAreNamed) {
  const std::string text = manifest_text(sample());
  EXPECT_EQ(refusal("[]"), "the manifest is not an object");
  EXPECT_EQ(refusal(replaced(text, "1200", "-5")), "step is not a whole number");
  EXPECT_EQ(refusal(replaced(text, "1200", "1.5")), "step is not a whole number");
  EXPECT_EQ(refusal(replaced(text, "1200", "18446744073709551615")), "step is not a whole number");
  EXPECT_EQ(refusal(replaced(text, "\"size\":96", "\"size\":\"96\"")), "size is not a whole number");
  EXPECT_EQ(refusal(replaced(text, "\"F32\"", "32")), "tensor \"fc1.weight\" is not a string");
  EXPECT_EQ(refusal(replaced(text, "\"shape\":[2,3]", "\"shape\":6")), "tensor \"fc1.weight\" is not a list");
}

TEST(Manifest, FileNamesCannotLeadOutOfTheCheckpoint) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "a/b", ".hidden", ""}) {
    EXPECT_THAT(refusal(replaced(manifest_text(sample()), "\"file\":\"model.safetensors\",\"size\"",
                                 "\"file\":\"" + std::string(name) + "\",\"size\"")),
                HasSubstr("is not a plain file name"));
  }
}

TEST(Manifest, SlicesThatAreNotTheWholeTensorAreRefused) {
  const std::string text = manifest_text(sample());
  EXPECT_EQ(refusal(replaced(text, "\"offset\":[0,0]", "\"offset\":[1,0]")),
            "tensor \"fc1.weight\" is not one whole slice");
  EXPECT_EQ(refusal(replaced(text, "[{\"file\":\"model.safetensors\",\"shape\":[2,3],\"offset\":[0,0]}]", "[]")),
            "tensor \"fc1.weight\" is not one whole slice");
}

TEST(Manifest, PartsAreJoinedInTheOrderOfTheirNames) {
  const NamedTensors model = {{"w", at::ones({2})}}, optimizer = {{"w/exp_avg", at::ones({2})}};
  const PartReport a{"optimizer.safetensors", 10, "aa", describe_whole_tensors("optimizer.safetensors", optimizer)};
  const PartReport b{"model.safetensors", 20, "bb", describe_whole_tensors("model.safetensors", model)};
  const Manifest manifest = make_manifest(3, "r", {a, b});
  EXPECT_EQ(manifest, make_manifest(3, "r", {b, a}));
  EXPECT_EQ(manifest.files[0].file, "model.safetensors");
  EXPECT_EQ(manifest.tensors.at("w/exp_avg").slices[0].file, "optimizer.safetensors");
  EXPECT_EQ(manifest.find("none"), nullptr);

  EXPECT_THAT(error_of([&] { make_manifest(3, "r", {a, a}); }).message, HasSubstr("two writers reported the file"));
  PartReport same_tensor = b;
  same_tensor.file = "model-2.safetensors";
  EXPECT_THAT(error_of([&] {
                make_manifest(3, "r", {b, same_tensor});
              }).message,
              HasSubstr("tensor \"w\" is stored twice"));
}

}  // namespace
}  // namespace gputrain
