#include <cstring>

#include <ATen/ATen.h>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace test;

class RawSource : public testing::Test {
 protected:
  std::unique_ptr<Source> open(const Json& inputs, const Json& targets, const std::optional<int64_t>& classes = {}) {
    return open_source(raw_plan(inputs, targets), "data.train", {.classes = classes, .ignore_index = {}});
  }
  Folder folder_;
};

TEST_F(RawSource, ReadsSamplesBehindAnOffset) {
  std::vector<float> values;
  for (int i = 0; i < 5 * 6; ++i) values.push_back(static_cast<float>(i) / 7);
  const std::string inputs = folder_.write_values("x", values, "0123456789");
  const std::string targets = folder_.write_values("y", std::vector<int64_t>{4, 3, 2, 1, 0});
  const auto source = open(array(inputs, {2, 3}, "float32", 10), array(targets, {}, "int64"), 5);
  ASSERT_EQ(source->size(), 5);
  EXPECT_EQ(source->sample_shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(source->sample_type(), at::kFloat);
  for (int64_t s : {4, 0, 2}) {
    float sample[6];
    int64_t label = -1;
    source->read(s, sample, &label);
    EXPECT_EQ(label, 4 - s);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(sample[i], values[static_cast<size_t>(s * 6 + i)]);
  }
}

TEST_F(RawSource, OffsetMayBeLeftOut) {
  const std::string x = folder_.write("x", "abcdef"), y = folder_.write("y", "012");
  Json inputs = array(x, {2}, "int8");
  inputs.erase("offset");
  EXPECT_EQ(open(inputs, array(y, {}, "uint8"))->size(), 3);
}

TEST_F(RawSource, KnowsEveryType) {
  const std::vector<std::tuple<const char*, at::ScalarType, size_t>> types{
      {"uint8", at::kByte, 1},        {"int8", at::kChar, 1},     {"int16", at::kShort, 2},
      {"int32", at::kInt, 4},         {"int64", at::kLong, 8},    {"float16", at::kHalf, 2},
      {"bfloat16", at::kBFloat16, 2}, {"float32", at::kFloat, 4}, {"float64", at::kDouble, 8}};
  for (const auto& [name, type, bytes] : types) {
    const std::string x = folder_.write("x", std::string(3 * 4 * bytes, 'x')), y = folder_.write("y", "012");
    const auto source = open(array(x, {4}, name), array(y, {}, "uint8"));
    EXPECT_EQ(source->sample_type(), type) << name;
    EXPECT_EQ(source->size(), 3) << name;
  }
}

template <typename T>
int64_t widened(Folder& folder, const char* dtype, T value) {
  const std::string x = folder.write("x", "ab"), y = folder.write_values("y", std::vector<T>{T{0}, value});
  const auto source = open_source(raw_plan(array(x, {1}, "uint8"), array(y, {}, dtype)), "data.train");
  EXPECT_EQ(source->target_type(), at::kLong);
  char sample;
  int64_t label = 0;
  source->read(1, &sample, &label);
  return label;
}

TEST_F(RawSource, IntegerScalarsBecomeInt64Labels) {
  EXPECT_EQ(widened<uint8_t>(folder_, "uint8", 200), 200);
  EXPECT_EQ(widened<int8_t>(folder_, "int8", -100), -100);
  EXPECT_EQ(widened<int16_t>(folder_, "int16", -30000), -30000);
  EXPECT_EQ(widened<int32_t>(folder_, "int32", 2000000000), 2000000000);
  EXPECT_EQ(widened<int64_t>(folder_, "int64", int64_t{1} << 60), int64_t{1} << 60);
}

TEST_F(RawSource, OtherTargetsKeepTypeAndShape) {
  const std::string x = folder_.write("x", "ab");
  const std::string y = folder_.write_values("y", std::vector<float>{1, 2, 3, 4});
  const auto source = open(array(x, {1}, "uint8"), array(y, {2}, "float32"), 10);
  EXPECT_EQ(source->target_type(), at::kFloat);
  EXPECT_EQ(source->target_shape(), (std::vector<int64_t>{2}));
  char sample;
  float target[2];
  source->read(1, &sample, target);
  EXPECT_EQ(target[0], 3);
  EXPECT_EQ(target[1], 4);
  const std::string z = folder_.write_values("z", std::vector<int32_t>{1, 2, 3, 4});
  EXPECT_EQ(open(array(x, {1}, "uint8"), array(z, {2}, "int32"))->target_type(), at::kInt);
}

TEST_F(RawSource, SizeMustBeWholeSamples) {
  const std::string y = folder_.write("y", "012");
  const auto error_with = [&](size_t bytes, int64_t offset) {
    const std::string x = folder_.write("x", std::string(bytes, 'x'));
    const Error error = error_of([&] { open(array(x, {2, 2}, "int16", offset), array(y, {}, "uint8")); });
    EXPECT_EQ(error.kind, ErrorKind::kData);
    EXPECT_EQ(error.where, x);
    return error.message;
  };
  EXPECT_THAT(error_with(25, 0),
              AllOf(HasSubstr("data.train.inputs"), HasSubstr("25 bytes - offset 0 = 25"),
                    HasSubstr("8 bytes a sample (int16 [2, 2])"), HasSubstr("3 samples and 1 bytes")));
  EXPECT_THAT(error_with(24, 4), HasSubstr("24 bytes - offset 4 = 20"));
  EXPECT_THAT(error_with(7, 0), HasSubstr("is too short: 7 bytes"));
  EXPECT_THAT(error_with(24, 100), HasSubstr("is too short: 24 bytes, with offset 100"));
  EXPECT_THAT(error_with(0, 0), HasSubstr("is empty"));
}

TEST_F(RawSource, CountsMustAgree) {
  const std::string x = folder_.write("x", "abc"), y = folder_.write("y", "01");
  const Error error = error_of([&] { open(array(x, {1}, "uint8"), array(y, {}, "uint8")); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.where, y);
  EXPECT_EQ(error.message, "data.train.targets has 2 targets for the 3 inputs of " + x);
}

TEST_F(RawSource, LabelsMustBeClassesWhereTheyAreKnown) {
  const std::string x = folder_.write("x", "abc"), y = folder_.write_values("y", std::vector<int16_t>{0, 9, -1});
  const auto open_with = [&](std::optional<int64_t> classes) {
    return open(array(x, {1}, "uint8"), array(y, {}, "int16"), classes);
  };
  EXPECT_NO_THROW(open_with({}));
  EXPECT_THAT(error_of([&] { open_with(10); }).message, HasSubstr("has label -1 at sample 2, which is not in [0, 10)"));
  EXPECT_THAT(error_of([&] { open_with(9); }).message, HasSubstr("has label 9 at sample 1, which is not in [0, 9)"));
}

// Labels of a file too large to scan are checked as they are read.
TEST_F(RawSource, LabelsOfLargeFilesAreCheckedWhenRead) {
  const int64_t count = (64 << 20) / 8 + 1;
  const std::string x = folder_.write("x", ""), y = folder_.write("y", "");
  std::filesystem::resize_file(x, static_cast<uintmax_t>(count));
  std::filesystem::resize_file(y, static_cast<uintmax_t>(count - 1) * 8);
  std::ofstream(y, std::ios::binary | std::ios::app) << std::string("\x63\0\0\0\0\0\0\0", 8);
  const auto source = open(array(x, {1}, "uint8"), array(y, {}, "int64"), 10);
  char sample;
  int64_t label;
  EXPECT_NO_THROW(source->read(count - 2, &sample, &label));
  const Error error = error_of([&] { source->read(count - 1, &sample, &label); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("has label 99 at sample 8388608, which"));
}

TEST_F(RawSource, AFileThatShrinksIsAnErrorNotASignal) {
  const std::string x = folder_.write("x", std::string(20000, 'x')), y = folder_.write("y", std::string(2, '\1'));
  const auto source = open(array(x, {10000}, "int8"), array(y, {}, "uint8"));
  LoaderOptions options;
  options.workers = 0;
  const auto loader = make_loader(*source, {}, options);
  EXPECT_EQ(loader->next_step().value().size(), 1u);
  std::filesystem::resize_file(x, 15);
  const Error error = error_of([&] { loader->next_step(); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.where, x);
  EXPECT_THAT(error.message, AllOf(HasSubstr("it had 20000 bytes"), HasSubstr("ends at byte 15")));
}

// Above 1 GiB reads go through pread. The file is sparse: it takes no space.
TEST_F(RawSource, LargeFilesAreReadWithoutAMap) {
  const int64_t count = 1025, each = 1 << 20;
  const std::string x = folder_.write("x", ""), y = folder_.write("y", std::string(static_cast<size_t>(count), '\3'));
  std::filesystem::resize_file(x, static_cast<uintmax_t>((count - 1) * each));
  std::ofstream(x, std::ios::binary | std::ios::app) << std::string(static_cast<size_t>(each), 'z');
  const auto source = open(array(x, {each}, "int8"), array(y, {}, "uint8"));
  ASSERT_EQ(source->size(), count);
  std::string sample(static_cast<size_t>(each), '?');
  int64_t label = -1;
  source->read(count - 1, sample.data(), &label);
  EXPECT_EQ(sample, std::string(static_cast<size_t>(each), 'z'));
  source->read(count - 2, sample.data(), &label);
  EXPECT_EQ(sample, std::string(static_cast<size_t>(each), '\0'));
  EXPECT_EQ(label, 3);
  std::filesystem::resize_file(x, 5);
  const Error error = error_of([&] { source->read(1, sample.data(), &label); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.where, x);
  EXPECT_THAT(error.message, HasSubstr("has become shorter"));
}

TEST_F(RawSource, ArgumentsAreChecked) {
  const std::string x = folder_.write("x", "abc"), y = folder_.write("y", "012");
  const auto spec_error = [&](const Json& inputs) {
    const Error error = error_of([&] { open(inputs, array(y, {}, "uint8")); });
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    return error.render();
  };
  EXPECT_THAT(spec_error(array(x, {1}, "float33")),
              AllOf(HasSubstr("data.train.inputs.dtype 'float33'"), HasSubstr("float32")));
  EXPECT_THAT(spec_error(array(x, {0}, "uint8")), HasSubstr("data.train.inputs.shape must be a shape"));
  EXPECT_THAT(spec_error(array(x, {1}, "uint8", -1)), HasSubstr("data.train.inputs.offset must not be negative"));
  EXPECT_THAT(spec_error(array(x, {int64_t{1} << 40, int64_t{1} << 40}, "uint8")), HasSubstr("too large"));
  EXPECT_THAT(spec_error(Json("x")), HasSubstr("data.train.inputs must be a mapping"));
  EXPECT_THAT(spec_error(Json{{"path", x}, {"shap", {1}}, {"dtype", "uint8"}}), HasSubstr("did you mean shape?"));
  const Error missing = error_of([&] { open(array(folder_.path("none"), {1}, "uint8"), array(y, {}, "uint8")); });
  EXPECT_EQ(missing.kind, ErrorKind::kData);
}

TEST_F(RawSource, FingerprintFollowsTheContent) {
  const std::string bytes(9 << 20, 'x');  // above the size that is hashed whole
  const auto fingerprint_of = [&](const std::string& name, const std::string& content, int64_t offset) {
    const std::string x = folder_.write(name, std::string(static_cast<size_t>(offset), 'o') + content);
    const std::string y = folder_.write("y", std::string(9, '\1'));
    return open(array(x, {1 << 20}, "uint8", offset), array(y, {}, "uint8"))->fingerprint();
  };
  const Json base = fingerprint_of("a", bytes, 0);
  EXPECT_EQ(base, fingerprint_of("b", bytes, 0));
  EXPECT_EQ(base, fingerprint_of("c", bytes, 128));
  EXPECT_EQ(base["inputs"]["bytes"], 9 << 20);
  for (size_t at : {size_t{0}, bytes.size() - 1}) {
    std::string changed = bytes;
    changed[at] = 'y';
    EXPECT_NE(base, fingerprint_of("a", changed, 0)) << at;
  }
}

TEST(Formats, AreNamed) {
  EXPECT_EQ(format_names(), (std::vector<std::string>{"idx", "raw", "tokens", "synthetic"}));
  const Error error = error_of([] { open_source({"idz", Json::object()}, "data.train"); });
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_THAT(error.render(),
              AllOf(HasSubstr("unknown data format 'idz'"), HasSubstr("idx, raw, tokens and synthetic")));
}

TEST(SyntheticSource, IsAFunctionOfTheId) {
  const auto a = synthetic(1000, {2, 3}), b = synthetic(5000, {2, 3});
  EXPECT_EQ(a->size(), 1000);
  EXPECT_EQ(a->sample_type(), at::kFloat);
  std::vector<int> classes(10);
  float low = 1, high = -1, previous = 0;
  double sum = 0;
  for (int64_t s = 0; s < 1000; ++s) {
    float one[6], two[6];
    int64_t label_one = -1, label_two = -1;
    a->read(s, one, &label_one);
    b->read(s, two, &label_two);
    ASSERT_EQ(std::memcmp(one, two, sizeof one), 0);
    ASSERT_EQ(label_one, label_two);
    ++classes.at(static_cast<size_t>(label_one));
    for (float value : one) {
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value;
      ASSERT_NE(value, previous);
      previous = value;
    }
  }
  for (int of_class : classes) EXPECT_NEAR(of_class, 100, 50);
  EXPECT_GE(low, -1);
  EXPECT_LT(low, -0.99);
  EXPECT_LT(high, 1);
  EXPECT_GT(high, 0.99);
  EXPECT_NEAR(sum / 6000, 0, 5 * 0.577 / std::sqrt(6000));
}

TEST(SyntheticSource, ChecksItsArguments) {
  const auto spec_error = [](int64_t samples, int64_t classes, std::optional<int64_t> known) {
    const Error error = error_of([&] {
      open_source({"synthetic", Json{{"samples", samples}, {"shape", {3}}, {"num_classes", classes}}}, "data.train",
                  {.classes = known, .ignore_index = {}});
    });
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    return error.message;
  };
  EXPECT_THAT(spec_error(0, 10, {}), HasSubstr("at least 1"));
  EXPECT_THAT(spec_error(5, 0, {}), HasSubstr("at least 1"));
  EXPECT_THAT(spec_error(5, 11, 10), HasSubstr("is 11, the model's only 10"));
}

}  // namespace
}  // namespace gputrain
