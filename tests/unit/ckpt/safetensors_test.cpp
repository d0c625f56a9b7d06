// What we write (against bytes made by hand), and what we refuse and accept (field case C59).
#include "ckpt/safetensors.h"

#include <limits>

#include "ckpt/safetensors_dtype.h"
#include "support/temp_dir.h"
#include "unit/ckpt/ckpt_testing.h"

namespace gputrain {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::write_file;

std::string length_bytes(uint64_t length) {
  return {reinterpret_cast<const char*>(&length), sizeof length};
}

// A file of that header and data, with a right length.
std::string file_of(const std::string& header, const std::string& data) {
  return length_bytes(header.size()) + header + data;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string written(const NamedTensors& tensors) {
    const SafetensorsPlan plan = plan_safetensors(tensors);
    fs_.remove_all(path_);
    const auto file = fs_.create(path_);
    write_safetensors(*file, plan);
    file->close();
    const std::string bytes = fs_.read(path_);
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), plan.size);
    return bytes;
  }
  std::map<std::string, at::Tensor> read(const std::string& bytes) {
    write_file(path_, bytes);
    return read_safetensors(fs_, path_);
  }
  // The reason for which `bytes` are refused, by the reader and by the header check alone unless it needs the data.
  std::string refusal(const std::string& bytes) {
    write_file(path_, bytes);
    const Error error = error_of([&] { read_safetensors(fs_, path_); });
    EXPECT_EQ(error.where, path_);
    EXPECT_THAT(error.message, ::testing::StartsWith("not a valid safetensors file: "));
    return error.message.substr(std::string("not a valid safetensors file: ").size());
  }

  testing::TempDir dir_;
  std::string path_ = dir_ / "t.safetensors";
  FileSystem& fs_ = real_file_system();
};

TEST_F(SafetensorsTest, WritesExactlyTheBytesOfTheFormat) {
  const NamedTensors tensors = {{"b", at::tensor({1, 2}, at::kByte)},
                                {"z", at::tensor({1.0, -2.0}, at::kFloat)},
                                {"a", at::tensor({3.0}, at::kFloat)}};
  const std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("z":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[12,14]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  const std::string data("\x00\x00\x40\x40\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x02", 14);
  EXPECT_EQ(written(tensors), file_of(header + padding, data));
}

TEST_F(SafetensorsTest, OrdersByAlignmentThenName) {
  const NamedTensors tensors = {{"u8", at::zeros({1}, at::kByte)},   {"f16", at::zeros({1}, at::kHalf)},
                                {"f32", at::zeros({1}, at::kFloat)}, {"i64", at::zeros({1}, at::kLong)},
                                {"a16", at::zeros({1}, at::kShort)}, {"f64", at::zeros({1}, at::kDouble)}};
  std::vector<std::string> names;
  for (const auto* item : plan_safetensors(tensors).order) names.push_back(item->first);
  EXPECT_THAT(names, ElementsAre("f64", "i64", "f32", "a16", "f16", "u8"));
}

TEST_F(SafetensorsTest, DataStartsOnAMultipleOfEight) {
  for (size_t length = 1; length <= 16; ++length) {
    written({{std::string(length, 'n'), at::zeros({1}, at::kDouble)}});
    EXPECT_EQ(read_safetensors_header(fs_, path_)[0].offset % 8, 0) << length;
  }
}

TEST_F(SafetensorsTest, EveryDtypeRoundTripsToTheBit) {
  NamedTensors tensors;
  for (const SafetensorsDtype& dtype : safetensors_dtypes()) {
    const at::Tensor values = at::arange(-4, 8).view({3, 4});
    tensors.emplace_back(std::string(dtype.name),
                         dtype.scalar_type == at::kBool ? values.gt(0) : values.to(dtype.scalar_type));
  }
  tensors.emplace_back("nan", at::full({2}, std::numeric_limits<float>::quiet_NaN()));
  written(tensors);
  Xxh3 hash;
  const auto loaded = read_safetensors(fs_, path_, &hash);
  EXPECT_EQ(hash.hex(), xxh3_of_file(fs_, path_));
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(loaded.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(loaded.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_EQ(bytes_of(loaded.at(name)), bytes_of(tensor)) << name;
  }
}

TEST_F(SafetensorsTest, EmptyScalarAndNonContiguousTensorsRoundTrip) {
  const at::Tensor matrix = at::arange(12, at::kFloat).view({3, 4});
  const NamedTensors tensors = {{"empty", at::zeros({0, 3})},
                                {"scalar", at::scalar_tensor(7.5, at::kDouble)},
                                {"transposed", matrix.t()},
                                {"column", matrix.select(1, 2)},
                                {"expanded", at::ones({1}).expand({4})},
                                {"grad", at::ones({2}).requires_grad_()}};
  written(tensors);
  const auto loaded = read_safetensors(fs_, path_);
  ASSERT_EQ(loaded.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(loaded.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(loaded.at(name).equal(tensor.detach())) << name;
  }
}

TEST_F(SafetensorsTest, ATensorLargerThanAReadPieceRoundTrips) {
  const at::Tensor big = at::arange((int64_t{17} << 20) / 4 + 3, at::kInt);
  written({{"big", big}, {"tail", at::ones({3}, at::kByte)}});
  Xxh3 hash;
  EXPECT_TRUE(read_safetensors(fs_, path_, &hash).at("big").equal(big));
  EXPECT_EQ(hash.hex(), xxh3_of_file(fs_, path_));
}

TEST_F(SafetensorsTest, NoTensorsIsAValidFile) {
  written({});
  EXPECT_TRUE(read_safetensors(fs_, path_).empty());
}

TEST_F(SafetensorsTest, NamesWithQuotesAndUnicodeSurvive) {
  const std::string name = "module.\"quoted\"\n\xc3\xa9";
  written({{name, at::ones({1})}});
  EXPECT_TRUE(read_safetensors(fs_, path_).contains(name));
}

TEST_F(SafetensorsTest, RefusesToWriteWhatItCouldNotRead) {
  const auto refusal_of = [](const NamedTensors& tensors) {
    return error_of([&] { plan_safetensors(tensors); }).message;
  };
  EXPECT_EQ(refusal_of({{"w", at::ones({1})}, {"w", at::ones({1})}}),
            "tensor \"w\" cannot be saved: the name is used twice or reserved");
  EXPECT_THAT(refusal_of({{"__metadata__", at::ones({1})}}), HasSubstr("reserved"));
  EXPECT_THAT(refusal_of({{"w", at::Tensor()}}), HasSubstr("undefined"));
  EXPECT_THAT(refusal_of({{"w", at::ones({1}, at::kComplexFloat)}}), HasSubstr("ComplexFloat is not supported"));
  EXPECT_THAT(refusal_of({{"w", at::ones({2, 2}).to_sparse()}}), HasSubstr("not dense"));
  EXPECT_THAT(refusal_of({{"\xff", at::ones({1})}}), HasSubstr("not valid UTF-8"));
}

// ---- files made by hand ----

constexpr char kTwo[] =
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
const std::string kTwoData(9, '\1');

TEST_F(SafetensorsTest, AcceptsValidButOddFiles) {
  EXPECT_EQ(read(file_of(kTwo, kTwoData)).size(), 2U);                         // header not padded
  EXPECT_EQ(read(file_of(std::string(kTwo) + "     ", kTwoData)).size(), 2U);  // padded
  EXPECT_EQ(read(file_of(std::string(1, ' ') + kTwo, kTwoData)).size(), 2U);   // a leading space
  EXPECT_EQ(read(file_of(R"({"__metadata__":{"k":"v"}})", "")).size(), 0U);    // only metadata
  EXPECT_EQ(read(file_of(R"({"__metadata__":null})", "")).size(), 0U);         // as the reference reader
  EXPECT_EQ(read(file_of("{}", "")).size(), 0U);                               // nothing
  const auto misaligned = read(file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                                       std::string("\x05\x00\x00\x80\x3f", 5)));
  EXPECT_EQ(misaligned.at("a").item<float>(), 1.0F);
  EXPECT_EQ(misaligned.at("b").item<int>(), 5);
  EXPECT_TRUE(read(file_of(R"({"module.fc.weight":{"dtype":"I8","shape":[1],"data_offsets":[0,1],"extra":1}})", "x"))
                  .contains("module.fc.weight"));
  const auto empty = read(file_of(R"({"e":{"dtype":"F64","shape":[3,0],"data_offsets":[1,1]},)"
                                  R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                  "x"));
  EXPECT_THAT(empty.at("e").sizes(), ElementsAre(3, 0));
}

TEST_F(SafetensorsTest, RefusesCutFiles) {
  const std::string whole = file_of(kTwo, kTwoData);
  EXPECT_EQ(refusal(""), "it has 0 bytes, fewer than the 8 of a header length");
  EXPECT_EQ(refusal(whole.substr(0, 4)), "it has 4 bytes, fewer than the 8 of a header length");
  EXPECT_THAT(refusal(whole.substr(0, 8)), HasSubstr("the file has 0 after the length (truncated?)"));
  EXPECT_THAT(refusal(whole.substr(0, 40)), HasSubstr("the file has 32 after the length (truncated?)"));
  EXPECT_EQ(refusal(whole.substr(0, whole.size() - 1)),
            "tensor \"b\": it ends at byte 9 of the data, which has 8 (truncated?)");
  for (size_t length = 0; length < whole.size(); ++length) refusal(whole.substr(0, length));
}

TEST_F(SafetensorsTest, RefusesImpossibleHeaderLengthsWithoutAllocating) {
  EXPECT_EQ(refusal(length_bytes(uint64_t{1} << 63) + "{}"),
            "its header length 9223372036854775808 exceeds the limit of 100000000");
  EXPECT_THAT(refusal(length_bytes(~uint64_t{0}) + "{}"), HasSubstr("exceeds the limit"));
  EXPECT_THAT(refusal(length_bytes(100'000'001) + "{}"), HasSubstr("exceeds the limit"));
  EXPECT_EQ(refusal(length_bytes(100'000'000) + "{}"),
            "its header needs 100000000 bytes, the file has 2 after the length (truncated?)");
}

TEST_F(SafetensorsTest, RefusesHeadersThatAreNotTheFormatsJson) {
  EXPECT_THAT(refusal(file_of("", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(file_of("<html>", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(file_of(R"({"a":NaN})", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(file_of("{}x", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(file_of("{\"\xff\":1}", "")), HasSubstr("not valid JSON"));
  EXPECT_EQ(refusal(file_of("[]", "")), "its header is not a JSON object");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"k":1}})", "")), "__metadata__ item \"k\" is not a string");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":[]})", "")), "__metadata__ is not an object");
  EXPECT_EQ(refusal(file_of(R"({"a":1})", "")), "tensor \"a\": its description is not an object");
}

TEST_F(SafetensorsTest, RefusesDuplicateNamesAndKeys) {
  EXPECT_THAT(refusal(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                              R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                              "x")),
              HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(refusal(file_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x")),
              HasSubstr("\"dtype\" appears twice"));
}

// One tensor whose description is `items`, with `data`.
std::string one(const std::string& items, const std::string& data) {
  return file_of("{\"a\":{" + items + "}}", data);
}

TEST_F(SafetensorsTest, RefusesBadDescriptions) {
  EXPECT_EQ(refusal(one(R"("shape":[1],"data_offsets":[0,1])", "x")), "tensor \"a\": no dtype");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","data_offsets":[0,1])", "x")), "tensor \"a\": no list shape");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","shape":[1])", "x")), "tensor \"a\": no list data_offsets");
  EXPECT_EQ(refusal(one(R"("dtype":"U9","shape":[1],"data_offsets":[0,1])", "x")), "tensor \"a\": unknown dtype U9");
  EXPECT_EQ(refusal(one(R"("dtype":"u8","shape":[1],"data_offsets":[0,1])", "x")), "tensor \"a\": unknown dtype u8");
  EXPECT_EQ(refusal(one(R"("dtype":3,"shape":[1],"data_offsets":[0,1])", "x")), "tensor \"a\": no dtype");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", "x")),
            "tensor \"a\": shape holds -1, not a size");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])", "x")),
            "tensor \"a\": shape holds 1.0, not a size");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1])", "x")),
            "tensor \"a\": shape holds 9223372036854775808, not a size");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", "x")),
            "tensor \"a\": data_offsets is not [begin, end]");
  EXPECT_EQ(refusal(one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])", "x")),
            "tensor \"a\": data_offsets is not [begin, end]");
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[1],"data_offsets":[-1,1])", "x")), HasSubstr("-1, not a size"));
}

TEST_F(SafetensorsTest, RefusesShapesThatDoNotFitTheirBytes) {
  EXPECT_EQ(refusal(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", "xxxx")),
            "tensor \"a\": shape [2] of F32 does not take the 4 bytes it is given");
  EXPECT_THAT(refusal(one(R"("dtype":"F32","shape":[0],"data_offsets":[0,4])", "xxxx")), HasSubstr("does not take"));
  EXPECT_THAT(refusal(one(R"("dtype":"F32","shape":[],"data_offsets":[0,8])", "xxxxxxxx")), HasSubstr("does not take"));
  // The product overflows to exactly 0, to a small number, and past 63 bits.
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", "")),
              HasSubstr("does not take"));
  EXPECT_THAT(refusal(one(R"("dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8])", "xxxxxxxx")),
              HasSubstr("does not take"));
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[9223372036854775807,2],"data_offsets":[0,1])", "x")),
              HasSubstr("does not take"));
  // Empty, but its strides would overflow.
  EXPECT_THAT(refusal(one(R"("dtype":"U8","shape":[0,9223372036854775807,2],"data_offsets":[0,0])", "")),
              HasSubstr("does not take"));
}

TEST_F(SafetensorsTest, RefusesDataThatIsNotTiledExactly) {
  const std::string a = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)";
  const std::string b = R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)";
  EXPECT_EQ(refusal(file_of(a + "[1,3]" + b + "[3,5]}}", "12345")), "tensor \"a\": a hole of 1 bytes before it");
  EXPECT_EQ(refusal(file_of(a + "[0,2]" + b + "[3,5]}}", "12345")), "tensor \"b\": a hole of 1 bytes before it");
  EXPECT_EQ(refusal(file_of(a + "[0,2]" + b + "[1,3]}}", "123")), "tensor \"b\": it overlaps the tensor before it");
  EXPECT_EQ(refusal(file_of(a + "[0,2]" + b + "[0,2]}}", "12")), "tensor \"b\": it overlaps the tensor before it");
  EXPECT_EQ(refusal(file_of(a + "[0,2]" + b + "[2,4]}}", "12345")), "1 bytes after the last tensor");
  EXPECT_EQ(refusal(file_of(a + "[0,2]" + b + "[2,5]}}", "12345")),
            "tensor \"b\": shape [2] of U8 does not take the 3 bytes it is given");
  EXPECT_EQ(refusal(file_of("{}", "x")), "1 bytes after the last tensor");
  // An empty tensor inside another one.
  EXPECT_EQ(refusal(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                            R"("e":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
                            "12")),
            "tensor \"e\": it overlaps the tensor before it");
}

TEST_F(SafetensorsTest, RefusesBoolsThatAreNeitherTrueNorFalse) {
  EXPECT_EQ(refusal(one(R"("dtype":"BOOL","shape":[2],"data_offsets":[0,2])", std::string("\x01\x02", 2))),
            "tensor \"a\": a BOOL is neither 0 nor 1");
}

TEST_F(SafetensorsTest, ControlCharactersOfForeignNamesAreShownEscaped) {
  EXPECT_THAT(refusal(file_of("{\"\\u001b[2J\":1}", "")), HasSubstr("\\x1b[2J"));
}

}  // namespace
}  // namespace gputrain
