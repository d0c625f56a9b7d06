#include <sys/stat.h>

#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace test;

class IdxSource : public testing::Test {
 protected:
  std::unique_ptr<Source> open(const std::string& images, const std::string& labels,
                               const std::optional<int64_t>& classes = {}) {
    return open_source(idx_plan(images, labels), "data.train", {.classes = classes, .ignore_index = {}});
  }
  // Opens 6 good labels with these bytes as the images.
  Error error_with(const std::string& image_bytes, const std::string& name = "images") {
    const std::string images = folder_.write(name, image_bytes), labels = folder_.write("labels", idx_labels(6));
    Error error = error_of([&] { open(images, labels); });
    EXPECT_EQ(error.kind, ErrorKind::kData);
    EXPECT_EQ(error.where, images);
    return error;
  }
  void expect_content(const Source& source, int64_t count) {
    ASSERT_EQ(source.size(), count);
    EXPECT_EQ(source.sample_shape(), (std::vector<int64_t>{1, 4, 5}));
    EXPECT_EQ(source.sample_type(), at::kByte);
    EXPECT_EQ(source.target_type(), at::kLong);
    EXPECT_TRUE(source.target_shape().empty());
    for (int64_t s = 0; s < count; ++s) {
      uint8_t image[20];
      int64_t label = -1;
      source.read(s, image, &label);
      EXPECT_EQ(label, label_of(s));
      for (int64_t i = 0; i < 20; ++i) ASSERT_EQ(image[i], pixel_of(s, i)) << s;
    }
  }

  Folder folder_;
};

TEST_F(IdxSource, ReadsPlainFiles) {
  expect_content(*open(folder_.write("i", idx_images(6)), folder_.write("l", idx_labels(6)), 10), 6);
}

TEST_F(IdxSource, KnowsGzipByItsContentNotItsName) {
  expect_content(*open(folder_.write("i", gzip(idx_images(6))), folder_.write("l", gzip(idx_labels(6)))), 6);
  expect_content(*open(folder_.write("i.gz", idx_images(6)), folder_.write("l.gz", idx_labels(6))), 6);
}

TEST_F(IdxSource, ReadsJoinedGzipMembersAndZeroPadding) {
  const std::string bytes = idx_images(6);
  for (size_t cut : {size_t{1}, size_t{17}, bytes.size() - 1}) {
    const std::string joined =
        gzip(bytes.substr(0, cut)) + gzip("") + gzip(bytes.substr(cut)) + std::string(1000, '\0');
    expect_content(*open(folder_.write("i.gz", joined), folder_.write("l", idx_labels(6))), 6);
  }
}

TEST_F(IdxSource, MissingFileSuggestsTheOtherSpelling) {
  const std::string labels = folder_.write("l", idx_labels(6));
  const auto hint_for = [&](const std::string& asked) {
    const Error error = error_of([&] { open(folder_.path(asked), labels); });
    EXPECT_EQ(error.kind, ErrorKind::kData);
    EXPECT_EQ(error.where, folder_.path(asked));
    EXPECT_THAT(error.message, AllOf(HasSubstr("data.train.images"), HasSubstr("No such file")));
    return error.hint;
  };
  EXPECT_EQ(hint_for("train-images-idx3-ubyte"), "check the path");
  const std::string dot = folder_.write("train-images.idx3-ubyte", idx_images(6));
  EXPECT_THAT(hint_for("train-images-idx3-ubyte"), HasSubstr("there is " + dot + ":"));
  EXPECT_THAT(hint_for("train-images-idx3-ubyte.gz"), HasSubstr("there is " + dot + ":"));
  const std::string dash = folder_.write("t10k-images-idx3-ubyte.gz", gzip(idx_images(6)));
  EXPECT_THAT(hint_for("t10k-images-idx3-ubyte"), HasSubstr("there is " + dash + ":"));
  EXPECT_THAT(hint_for("t10k-images.idx3-ubyte"), HasSubstr("there is " + dash + ":"));
}

TEST_F(IdxSource, RefusesDirectories) {
  const Error error = error_of([&] { open(folder_.path(""), folder_.write("l", idx_labels(6))); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("is a directory"));
}

TEST_F(IdxSource, APipeIsToldAndNotWaitedFor) {
  const std::string pipe = folder_.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Error error = error_of([&] { open(pipe, pipe); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("is not a regular file"));
}

TEST_F(IdxSource, SaysWhatAWrongFileLooksLike) {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "is empty"},
      {"\n <!DOCTYPE html><html><body>404</body></html>", "is an HTML page (it begins with \"<!DOCTYPE html>"},
      {"\xef\xbb\xbf<HTML>", "is an HTML page"},
      {"<?xml version=\"1.0\"?><Error>AccessDenied</Error>", "is an XML or HTML page"},
      {"\x80\x02}q\x01(U", "is a Python pickle"},
      {"\x93NUMPY\x01\x00"s, "is a NumPy .npy file"},
      {"PK\x03\x04\x14\x00"s, "is a zip archive"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", "is a Git LFS pointer"},
      {"label,pixel0,pixel1\n5,0,0\n", "is text (it begins with \"label,pixel0,pixel1\")"},
      {"\x03\xff\x10\x99\x1b[2J", "binary data that begins with the bytes 03 ff 10 99 1b 5b 32 4a"},
      {"\0\0"s, "binary data that begins with the bytes 00 00"}};
  for (const auto& [bytes, expected] : cases) {
    const Error error = error_with(bytes);
    EXPECT_THAT(error.message, AllOf(HasSubstr("data.train.images is not an idx file: it "), HasSubstr(expected)));
    EXPECT_THAT(error.hint, HasSubstr("00 00 08"));
    // The same inside gzip.
    EXPECT_THAT(error_with(gzip(bytes)).message, AllOf(HasSubstr("once unpacked"), HasSubstr(expected)));
  }
}

TEST_F(IdxSource, NamesGzipThatIsNot) {
  const Error error = error_with("<html>Sign in</html>", "images.gz");
  EXPECT_THAT(error.message, HasSubstr("is an HTML page"));
  EXPECT_THAT(error.hint, HasSubstr("the name says gzip, the content does not"));
}

TEST_F(IdxSource, NamesFilesCompressedTwice) {
  const Error error = error_with(gzip(gzip(idx_images(6))));
  EXPECT_THAT(error.message, HasSubstr("is gzip data"));
  EXPECT_THAT(error.hint, HasSubstr("compressed twice"));
}

TEST_F(IdxSource, RefusesOtherTypesAndDimensions) {
  EXPECT_THAT(error_with(idx_header(0x0D, {6, 4, 5}) + std::string(480, '\0')).message, HasSubstr("float32 values"));
  EXPECT_THAT(error_with(idx_header(0x0C, {6, 4, 5}) + std::string(480, '\0')).message, HasSubstr("int32 values"));
  EXPECT_THAT(error_with(idx_header(8, {6, 4}) + std::string(24, '\0')).message,
              HasSubstr("2 dimensions where 3 are needed"));
  const Error swapped = error_with(idx_labels(6));
  EXPECT_THAT(swapped.message, HasSubstr("1 dimension where 3 are needed"));
  EXPECT_THAT(swapped.hint, HasSubstr("swapped"));
  EXPECT_THAT(error_with(idx_header(8, {0, 28, 28})).message, HasSubstr("no samples"));
}

TEST_F(IdxSource, CountsTheBytesOfCutAndPaddedFiles) {
  const std::string bytes = idx_images(6);  // 16 + 120
  EXPECT_THAT(error_with(bytes.substr(0, 100)).message,
              AllOf(HasSubstr("is cut"), HasSubstr("[6, 4, 5]"), HasSubstr("120 bytes"), HasSubstr("there are 84")));
  EXPECT_THAT(error_with(bytes.substr(0, 16)).message, HasSubstr("there are 0"));
  EXPECT_THAT(error_with(bytes.substr(0, 10)).message, HasSubstr("is cut within its header"));
  EXPECT_THAT(error_with(bytes + "xyz").message,
              AllOf(HasSubstr("is too long"), HasSubstr("120 bytes"), HasSubstr("123")));
  EXPECT_THAT(error_with(gzip(bytes.substr(0, 100))).message, AllOf(HasSubstr("is cut"), HasSubstr("there are 84")));
  EXPECT_THAT(error_with(gzip(bytes + "xyz")).message, AllOf(HasSubstr("is too long"), HasSubstr("123")));
}

// A header that claims 2^64 bytes must not take that memory.
TEST_F(IdxSource, DoesNotTrustTheHeader) {
  const std::string absurd = idx_header(8, {0xffffffff, 0xffffffff, 0xffffffff});
  EXPECT_THAT(error_with(absurd + "abc").message, AllOf(HasSubstr("more than 2^63"), HasSubstr("there are 3")));
  EXPECT_THAT(error_with(gzip(idx_header(8, {0xffffffff, 100, 100}) + "abc")).message, HasSubstr("there are 3"));
}

TEST_F(IdxSource, EveryCutOfAGzipFileIsAnError) {
  const std::string packed = gzip(idx_images(6));
  for (size_t size = 3; size < packed.size(); ++size) {
    const Error error = error_with(packed.substr(0, size));
    EXPECT_THAT(error.message, HasSubstr("gzip data is cut")) << size;
    EXPECT_THAT(error.message, HasSubstr(std::to_string(size) + " bytes")) << size;
  }
}

TEST_F(IdxSource, DamagedGzipIsAnError) {
  const std::string packed = gzip(idx_images(6)), labels = folder_.write("labels", idx_labels(6));
  int errors = 0;
  for (size_t at = 10; at < packed.size(); ++at) {  // behind the header, whose flags and time may change
    std::string bytes = packed;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    try {
      // The bits that fill up the last byte of the stream mean nothing.
      expect_content(*open(folder_.write("images", bytes), labels), 6);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kData);
      ++errors;
    }
  }
  EXPECT_GE(errors, static_cast<int>(packed.size()) - 11);
  EXPECT_THAT(error_with(packed + "junk").message, HasSubstr("bytes that are not gzip"));
  EXPECT_THAT(error_with("\x1f\x8bjunk").message, HasSubstr("begins like gzip"));
}

TEST_F(IdxSource, CountsMustAgree) {
  const std::string images = folder_.write("i", idx_images(6)), labels = folder_.write("l", idx_labels(5));
  const Error error = error_of([&] { open(images, labels); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.where, labels);
  EXPECT_EQ(error.message, "data.train.labels has 5 labels for the 6 images of " + images);
}

TEST_F(IdxSource, LabelsMustBeClasses) {
  const std::string images = folder_.write("i", idx_images(6)), labels = folder_.write("l", idx_labels(6));
  EXPECT_NO_THROW(open(images, labels, 6));
  const Error error = error_of([&] { open(images, labels, 4); });
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.where, labels);
  EXPECT_THAT(error.message, HasSubstr("has label 4 at sample 4, which is not in [0, 4)"));
}

TEST_F(IdxSource, FingerprintIsOfTheContentAlone) {
  const Json plain = open(folder_.write("i", idx_images(6)), folder_.write("l", idx_labels(6)))->fingerprint();
  const Json packed =
      open(folder_.write("other.gz", gzip(idx_images(6))), folder_.write("l", idx_labels(6)))->fingerprint();
  EXPECT_EQ(plain, packed);
  EXPECT_EQ(plain["format"], "idx");
  EXPECT_EQ(plain["samples"], 6);
  EXPECT_EQ(plain["shape"], Json({1, 4, 5}));
  EXPECT_EQ(plain["dtype"], "uint8");
  EXPECT_EQ(plain["inputs"]["bytes"], 120);
  std::string changed = idx_images(6);
  changed[60] = static_cast<char>(changed[60] + 1);
  EXPECT_NE(plain, open(folder_.write("i2", changed), folder_.write("l", idx_labels(6)))->fingerprint());
  EXPECT_EQ(plain.dump().find(folder_.path("")), std::string::npos);
}

TEST_F(IdxSource, ArgumentsAreChecked) {
  const auto spec_error = [](const Json& args) {
    const Error error = error_of([&] { open_source({"idx", args}, "data.val"); });
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    return error.render();
  };
  EXPECT_THAT(spec_error(Json{{"images", "/x"}}), HasSubstr("data.val needs the argument 'labels'"));
  EXPECT_THAT(spec_error(Json{{"images", 3}, {"labels", "/x"}}), HasSubstr("data.val.images must be a string, not 3"));
  EXPECT_THAT(spec_error(Json{{"image", "/x"}, {"labels", "/x"}}), HasSubstr("did you mean images?"));
}

// The real thing: Debian's dataset-fashion-mnist, a dependency of the tests.
TEST(FashionMnist, OpensBothSets) {
  const std::string at = "/usr/share/datasets/fashion-mnist/";
  for (const auto& [set, count] : std::vector<std::pair<std::string, int64_t>>{{"train", 60000}, {"t10k", 10000}}) {
    const auto source = open_source(idx_plan(at + set + "-images-idx3-ubyte.gz", at + set + "-labels-idx1-ubyte.gz"),
                                    "data.train", {.classes = 10, .ignore_index = {}});
    EXPECT_EQ(source->size(), count);
    EXPECT_EQ(source->sample_shape(), (std::vector<int64_t>{1, 28, 28}));
    std::vector<int> classes(10);
    uint8_t image[784];
    double sum = 0;
    for (int64_t s = 0; s < count; ++s) {
      int64_t label = -1;
      source->read(s, image, &label);
      ++classes.at(static_cast<size_t>(label));
      for (uint8_t pixel : image) sum += pixel;
    }
    for (int of_class : classes) EXPECT_EQ(of_class, count / 10);
    if (count == 60000) {
      EXPECT_NEAR(sum / (784.0 * 60000 * 255), 0.2860, 5e-5);  // the mean in everybody's recipe
    }
  }
}

}  // namespace
}  // namespace gputrain
