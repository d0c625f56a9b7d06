#include "sys/fs.h"

#include <csignal>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RealFileSystemTest : public ::testing::Test {
 protected:
  void write(const std::string& path, std::string_view bytes) {
    const auto file = fs_.create(path);
    file->append(bytes);
    file->close();
  }
  // The message of the Error of kind kOutput that `action` must throw.
  template <typename Action>
  std::string output_error(Action action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kOutput);
      return error.message;
    }
    return "nothing was thrown";
  }

  testing::TempDir dir_;
  FileSystem& fs_ = real_file_system();
};

TEST_F(RealFileSystemTest, ReadsBackWhatWasAppended) {
  const std::string path = dir_ / "f";
  const auto file = fs_.create(path);
  file->append(std::string_view("ab\0c", 4));
  file->append(std::string_view());
  file->append(std::string_view("de"));
  file->sync();
  file->close();
  file->close();  // idempotent
  EXPECT_EQ(fs_.read(path), std::string("ab\0cde", 6));
  EXPECT_EQ(fs_.size(path), 6);
}

TEST_F(RealFileSystemTest, APipeInThePlaceOfAFileIsNotWaitedFor) {
  const std::string path = dir_ / "manifest.json";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  char byte[1];
  for (const std::function<void()>& action : std::vector<std::function<void()>>{
           [&] { fs_.read(path); }, [&] { fs_.read_at(path, 0, byte); }, [&] { fs_.size(path); }}) {
    EXPECT_EQ(output_error(action), "cannot open " + path + ": it is a pipe, not a file");
  }
  EXPECT_GT(fs_.read("/proc/self/stat").size(), 10u);  // a file, although it tells no size
}

TEST_F(RealFileSystemTest, AppendsMoreThanOneTransfer) {
  std::string bytes((size_t{64} << 20) + 12345, '\0');
  for (size_t i = 0; i < bytes.size(); i += 4093) bytes[i] = static_cast<char>(i % 251);
  write(dir_ / "big", bytes);
  EXPECT_TRUE(fs_.read(dir_ / "big") == bytes);
}

TEST_F(RealFileSystemTest, CreateRefusesAnExistingFileAndKeepsIt) {
  write(dir_ / "f", "old");
  EXPECT_EQ(output_error([&] { fs_.create(dir_ / "f"); }), "cannot create " + (dir_ / "f") + ": File exists");
  EXPECT_EQ(fs_.read(dir_ / "f"), "old");
}

TEST_F(RealFileSystemTest, CreateNamesAMissingDirectory) {
  EXPECT_EQ(output_error([&] { fs_.create(dir_ / "no/f"); }),
            "cannot create " + (dir_ / "no/f") + ": No such file or directory");
}

TEST_F(RealFileSystemTest, AShortWriteIsAnErrorThatNamesTheFile) {
  // A file size limit makes the kernel accept only a part of the bytes, as a full disk does.
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = output_error([&] { write(dir_ / "f", std::string(5000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, "cannot write " + (dir_ / "f") + ": File too large");
  EXPECT_EQ(fs_.size(dir_ / "f"), 4096);
}

TEST_F(RealFileSystemTest, ReadOfAMissingFileOrADirectoryIsAnError) {
  EXPECT_EQ(output_error([&] { fs_.read(dir_ / "none"); }),
            "cannot read " + (dir_ / "none") + ": No such file or directory");
  EXPECT_EQ(output_error([&] { fs_.read(dir_.path()); }), "cannot read " + dir_.path() + ": Is a directory");
  EXPECT_EQ(output_error([&] { fs_.size(dir_ / "none"); }),
            "cannot read " + (dir_ / "none") + ": No such file or directory");
  EXPECT_EQ(output_error([&] { fs_.size(dir_.path()); }), "cannot read " + dir_.path() + ": Is a directory");
}

TEST_F(RealFileSystemTest, ReadsFilesThatReportNoSize) {
  EXPECT_THAT(fs_.read("/proc/self/status"), HasSubstr("Pid:"));
  write(dir_ / "empty", "");
  EXPECT_EQ(fs_.read(dir_ / "empty"), "");
}

TEST_F(RealFileSystemTest, ReadAtGivesExactlyTheRange) {
  write(dir_ / "f", "0123456789");
  std::string out(4, '?');
  fs_.read_at(dir_ / "f", 3, out);
  EXPECT_EQ(out, "3456");
  fs_.read_at(dir_ / "f", 6, out);
  EXPECT_EQ(out, "6789");
  fs_.read_at(dir_ / "f", 10, std::span<char>());
}

TEST_F(RealFileSystemTest, ReadAtPastTheEndSaysWhereTheFileEnds) {
  write(dir_ / "f", "0123456789");
  std::string out(4, '?');
  EXPECT_EQ(output_error([&] { fs_.read_at(dir_ / "f", 8, out); }),
            "cannot read " + (dir_ / "f") + ": the file ends at byte 10, 2 bytes before the expected end");
}

TEST_F(RealFileSystemTest, ExistsIsFalseBehindAFileAndForDanglingLinks) {
  write(dir_ / "f", "");
  EXPECT_TRUE(fs_.exists(dir_ / "f"));
  EXPECT_TRUE(fs_.exists(dir_.path()));
  EXPECT_FALSE(fs_.exists(dir_ / "g"));
  EXPECT_FALSE(fs_.exists(dir_ / "f/g"));
  ASSERT_EQ(::symlink("nowhere", (dir_ / "link").c_str()), 0);
  EXPECT_FALSE(fs_.exists(dir_ / "link"));
}

TEST_F(RealFileSystemTest, ListIsSortedAndEmptyForAMissingDirectory) {
  for (const char* name : {"b", ".hidden", "a", "c"}) write(dir_ / name, "");
  fs_.make_directories(dir_ / "d/e");
  EXPECT_THAT(fs_.list(dir_.path()), ElementsAre(".hidden", "a", "b", "c", "d"));
  EXPECT_THAT(fs_.list(dir_ / "none"), IsEmpty());
  EXPECT_EQ(output_error([&] { fs_.list(dir_ / "a"); }), "cannot list " + (dir_ / "a") + ": Not a directory");
}

TEST_F(RealFileSystemTest, MakeDirectoriesIsIdempotentAndRefusesAFileInTheWay) {
  fs_.make_directories(dir_ / "a/b/c");
  fs_.make_directories(dir_ / "a/b/c");
  EXPECT_TRUE(fs_.exists(dir_ / "a/b/c"));
  write(dir_ / "file", "");
  EXPECT_THAT(output_error([&] { fs_.make_directories(dir_ / "file/x"); }), HasSubstr("Not a directory"));
}

TEST_F(RealFileSystemTest, RenameReplacesFilesAndEmptyDirectoriesOnly) {
  write(dir_ / "a", "a");
  write(dir_ / "b", "b");
  fs_.rename(dir_ / "a", dir_ / "b");
  EXPECT_EQ(fs_.read(dir_ / "b"), "a");
  EXPECT_FALSE(fs_.exists(dir_ / "a"));

  fs_.make_directories(dir_ / "from");
  write(dir_ / "from/x", "x");
  fs_.make_directories(dir_ / "empty");
  fs_.rename(dir_ / "from", dir_ / "empty");
  EXPECT_EQ(fs_.read(dir_ / "empty/x"), "x");

  fs_.make_directories(dir_ / "other");
  EXPECT_EQ(output_error([&] { fs_.rename(dir_ / "other", dir_ / "empty"); }),
            "cannot rename " + (dir_ / "other") + " to " + (dir_ / "empty") + ": Directory not empty");
  EXPECT_EQ(fs_.read(dir_ / "empty/x"), "x");
}

TEST_F(RealFileSystemTest, RemoveAllTakesTreesFilesAndNothing) {
  fs_.make_directories(dir_ / "t/u");
  write(dir_ / "t/u/f", "");
  ASSERT_EQ(::symlink(dir_.path().c_str(), (dir_ / "t/up").c_str()), 0);
  write(dir_ / "keep", "");
  fs_.remove_all(dir_ / "t");
  fs_.remove_all(dir_ / "t");
  fs_.remove_all(dir_ / "keep/none");
  EXPECT_THAT(fs_.list(dir_.path()), ElementsAre("keep"));  // links are removed, not followed
  fs_.remove_all(dir_ / "keep");
  EXPECT_THAT(fs_.list(dir_.path()), IsEmpty());
}

TEST_F(RealFileSystemTest, SyncDirectoryRefusesFilesAndMissingOnes) {
  fs_.sync_directory(dir_.path());
  write(dir_ / "f", "");
  EXPECT_THAT(output_error([&] { fs_.sync_directory(dir_ / "f"); }), HasSubstr("Not a directory"));
  EXPECT_THAT(output_error([&] { fs_.sync_directory(dir_ / "g"); }), HasSubstr("No such file or directory"));
}

TEST_F(RealFileSystemTest, FreeBytesIsPositiveOnAWritableDisk) {
  EXPECT_GT(fs_.free_bytes(dir_.path()), 0);
  EXPECT_THAT(output_error([&] { fs_.free_bytes(dir_ / "none"); }), HasSubstr("No such file or directory"));
}

TEST_F(RealFileSystemTest, AtomicWriteReplacesAndLeavesNoTemporary) {
  write_file_atomically(fs_, dir_ / "f", "one");
  write_file_atomically(fs_, dir_ / "f", "two");
  EXPECT_EQ(fs_.read(dir_ / "f"), "two");
  EXPECT_THAT(fs_.list(dir_.path()), ElementsAre("f"));
}

TEST_F(RealFileSystemTest, AtomicWriteSurvivesALeftOverTemporary) {
  write(dir_ / "f.tmp", "torn");
  write_file_atomically(fs_, dir_ / "f", "whole");
  EXPECT_EQ(fs_.read(dir_ / "f"), "whole");
  EXPECT_THAT(fs_.list(dir_.path()), ElementsAre("f"));
}

TEST_F(RealFileSystemTest, AFailedAtomicWriteKeepsTheOldFileAndRemovesTheTemporary) {
  fs_.make_directories(dir_ / "target");
  write(dir_ / "target/in_the_way", "");
  EXPECT_THAT(output_error([&] { write_file_atomically(fs_, dir_ / "target", "x"); }), HasSubstr("cannot rename"));
  EXPECT_THAT(fs_.list(dir_.path()), ElementsAre("target"));
}

}  // namespace
}  // namespace gputrain
