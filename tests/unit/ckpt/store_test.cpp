// Saving: what is written, what is kept, what happens when it cannot be.
#include <filesystem>
#include <limits>

#include "ckpt/checkpoint.h"
#include "ckpt/xxh3.h"
#include "support/faulty_fs.h"
#include "unit/ckpt/ckpt_testing.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::expect_tiny;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::tiny_content;
using testing::write_file;

class StoreTest : public testing::CheckpointTest {
 protected:
  std::vector<std::string> names() { return fs_.list(options_.directory); }
  void damage(const std::string& path) {
    std::string bytes = fs_.read(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(path, bytes);
  }
};

TEST_F(StoreTest, WritesFourFilesAndReportsTheirSize) {
  const SavedCheckpoint saved = save(1200);
  EXPECT_EQ(saved.step, 1200);
  EXPECT_EQ(saved.path, options_.directory + "/step-00001200");
  EXPECT_THAT(saved.warnings, IsEmpty());
  EXPECT_THAT(names(), ElementsAre("step-00001200"));
  const std::vector<std::string> files = fs_.list(saved.path);
  EXPECT_THAT(files, ElementsAre("manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"));
  int64_t bytes = 0;
  for (const std::string& file : files) bytes += fs_.size(saved.path + "/" + file);
  EXPECT_EQ(saved.bytes, bytes);
  expect_tiny(load_checkpoint(fs_, saved.path), 1200);
  EXPECT_EQ(load_checkpoint(fs_, saved.path).run_id, "run-1");
}

TEST_F(StoreTest, ManifestHoldsTheHashesOfTheFiles) {
  save(1);
  const Json manifest = Json::parse(fs_.read(at(1, "manifest.json")));
  ASSERT_EQ(manifest["files"].size(), 3U);
  for (const Json& file : manifest["files"]) {
    const std::string path = at(1, file["file"]);
    EXPECT_EQ(file["size"], fs_.size(path));
    EXPECT_EQ(file["xxh3"], xxh3_of_file(fs_, path));
  }
  EXPECT_EQ(manifest["tensors"]["fc1.weight/exp_avg"]["slices"][0]["file"], "optimizer.safetensors");
}

TEST_F(StoreTest, TwoRunsWriteTheSameBytesButForTheRunId) {
  save(7);
  CheckpointOptions other = testing::options_for(dir_ / "elsewhere/checkpoints");
  other.run_id = "another-run";
  other.attempt = 4;
  const std::string path = CheckpointStore(fs_, other).save(tiny_content(7), std::nullopt).path;
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    EXPECT_EQ(fs_.read(at(7, file)), fs_.read(path + "/" + file)) << file;
  }
  Json a = Json::parse(fs_.read(at(7, "manifest.json"))), b = Json::parse(fs_.read(path + "/manifest.json"));
  EXPECT_NE(a, b);
  a.erase("run_id");
  b.erase("run_id");
  EXPECT_EQ(a, b);
}

TEST_F(StoreTest, ASavedStepIsNotWrittenAgain) {
  save(5);
  options_.on_phase = [](const char* phase) { FAIL() << "phase " << phase; };
  const SavedCheckpoint again = save(5);
  EXPECT_EQ(again.path, at(5));
  EXPECT_GT(again.bytes, 0);
}

TEST_F(StoreTest, ADamagedStepIsReplaced) {
  save(4);
  save(5);
  damage(at(5, "model.safetensors"));
  save(5);
  expect_tiny(load_checkpoint(fs_, at(5)), 5);
  EXPECT_THAT(names(), ElementsAre("step-00000004", "step-00000005"));
}

// As a crash between the two renames of a replacement leaves it, and damage after that.
TEST_F(StoreTest, TheGoodOneOfTwoCopiesStays) {
  for (const bool damaged : {true, false}) {
    save(4);
    std::filesystem::copy(at(4), options_.directory + "/.replaced-step-00000004-1");
    if (damaged) damage(at(4, "model.safetensors"));
    save(5);
    EXPECT_THAT(names(), ElementsAre(damaged ? ".replaced-step-00000004-1" : "step-00000004", "step-00000005"));
    fs_.remove_all(options_.directory);
  }
}

TEST_F(StoreTest, PhasesAndFenceComeInOrderWithTheFilesInPlace) {
  std::vector<std::string> seen;
  const std::string temporary = options_.directory + "/.tmp-5-2";
  options_.attempt = 2;
  options_.on_phase = [&](const char* phase) {
    seen.push_back(std::string(phase) + (fs_.exists(temporary + "/manifest.json") ? " written" : " nothing"));
  };
  options_.check_fence = [&] { seen.push_back(fs_.exists(at(5)) ? "fence late" : "fence"); };
  save(5);
  EXPECT_THAT(seen, ElementsAre("writing nothing", "commit written", "fence"));
}

TEST_F(StoreTest, ALostLockStopsTheCommitAndItsErrorPassesUnchanged) {
  save(4);
  options_.check_fence = [] { throw Error(ErrorKind::kOutput, "the lock belongs to attempt 9"); };
  EXPECT_EQ(error_of([&] { save(5); }, ErrorKind::kOutput).message, "the lock belongs to attempt 9");
  EXPECT_THAT(names(), ElementsAre("step-00000004"));
}

TEST_F(StoreTest, AnExceptionOfAPhaseHookLeavesNothingBehind) {
  options_.on_phase = [](const char* phase) {
    if (std::string(phase) == "commit") throw std::runtime_error("stop");
  };
  EXPECT_THROW(save(5), std::runtime_error);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(StoreTest, KeepLastRemovesTheOldest) {
  options_.keep_last = 2;
  for (int64_t step = 1; step <= 4; ++step) save(step * 10);
  EXPECT_THAT(names(), ElementsAre("step-00000030", "step-00000040"));
}

TEST_F(StoreTest, KeepBestSurvivesARestart) {
  options_.keep_last = 1;
  options_.keep_best = "accuracy";
  save(10, 0.5);
  save(20, 0.9);
  save(30);
  save(40, 0.7);  // each save is by a new store: the directories alone remember
  EXPECT_THAT(names(), ElementsAre("step-00000020", "step-00000040"));
  save(50, std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(names(), ElementsAre("step-00000020", "step-00000050"));
  save(60, 0.95);
  EXPECT_THAT(names(), ElementsAre("step-00000060"));
}

TEST_F(StoreTest, KeepBestCanMeanSmallest) {
  options_.keep_last = 1;
  options_.keep_best = "loss";
  options_.best_is_larger = false;
  save(10, 0.5);
  save(20, 0.9);
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000020"));
  save(30, -std::numeric_limits<double>::infinity());
  EXPECT_THAT(names(), ElementsAre("step-00000030"));
}

TEST_F(StoreTest, DamagedOnesDoNotCountForKeepLast) {
  options_.keep_last = 2;
  save(10);
  save(20);
  write_file(at(20, "model.safetensors"), "short");
  save(30);
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000030"));
}

TEST_F(StoreTest, AMetricThatComesLaterReplacesTheSameStep) {
  options_.keep_best = "accuracy";
  save(10);
  save(10, 0.5);
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
  const Json state = Json::parse(fs_.read(at(10, "state.json")));
  EXPECT_EQ(state["metric"],
            (Json{{"name", "accuracy"}, {"value", 0.5}, {"larger_is_better", true}, {"measured_on", nullptr}}));
  options_.on_phase = [](const char*) { FAIL() << "the metric is there already"; };
  save(10, 0.5);
  save(10);
}

TEST_F(StoreTest, AnotherStateOfTheSameStepReplacesIt) {
  save(5);
  CheckpointContent evaluated = tiny_content(5);
  evaluated.state["evaluated_at"] = 5;
  CheckpointStore(fs_, options_).save(evaluated, std::nullopt);
  EXPECT_THAT(names(), ElementsAre("step-00000005"));
  EXPECT_EQ(load_checkpoint(fs_, at(5)).state, evaluated.state);
}

TEST_F(StoreTest, ForeignAndNewerEntriesAreNotTouched) {
  options_.keep_last = 1;
  save(90);
  for (const char* name : {"notes.txt", "step-5", ".tmp-mine", ".trash-can"}) {
    write_file(options_.directory + "/" + name, "mine");
  }
  save(10);
  save(20);
  CheckpointStore(fs_, options_).sweep();
  EXPECT_THAT(names(), ElementsAre(".tmp-mine", ".trash-can", "notes.txt", "step-00000020", "step-00000090", "step-5"));
}

TEST_F(StoreTest, SweepRemovesWhatDeadAttemptsLeft) {
  save(10);
  for (const char* name : {".tmp-20-1", ".tmp-30-7", ".trash-step-00000001"}) {
    fs_.make_directories(options_.directory + "/" + name);
    write_file(options_.directory + "/" + name + "/model.safetensors", "torn");
  }
  CheckpointStore(fs_, options_).sweep();
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
  CheckpointStore(fs_, testing::options_for(dir_ / "never-made")).sweep();
  EXPECT_FALSE(fs_.exists(dir_ / "never-made"));
}

TEST_F(StoreTest, SweepPutsBackACheckpointWhoseReplacementNeverCame) {
  save(10);
  fs_.rename(at(10), options_.directory + "/.replaced-step-00000010-1");
  const ResumeChoice before = load_for_resume(fs_, options_.directory, "auto", "");
  ASSERT_TRUE(before.checkpoint);
  expect_tiny(*before.checkpoint, 10);
  CheckpointStore(fs_, options_).sweep();
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
}

TEST_F(StoreTest, SetAsideAboveHidesALeftPastWithoutDeletingIt) {
  for (const int64_t step : {10, 20, 30}) save(step);
  CheckpointStore store(fs_, options_);
  EXPECT_THAT(store.set_aside_above(10), ElementsAre(options_.directory + "/.aside-step-00000030-1",
                                                     options_.directory + "/.aside-step-00000020-1"));
  EXPECT_EQ(load_for_resume(fs_, options_.directory, "auto", "").checkpoint->step, 10);
  EXPECT_THAT(store.set_aside_above(10), IsEmpty());
  save(20);
  EXPECT_THAT(store.set_aside_above(-1), ElementsAre(options_.directory + "/.aside-step-00000020-2",
                                                     options_.directory + "/.aside-step-00000010-1"));
  EXPECT_FALSE(load_for_resume(fs_, options_.directory, "auto", "").checkpoint);
  save(40);
  store.sweep();
  expect_tiny(load_checkpoint(fs_, options_.directory + "/.aside-step-00000030-1"), 30);
}

TEST_F(StoreTest, TooLittleSpaceIsSaidBeforeAnythingIsWritten) {
  save(10);
  testing::FaultyFileSystem faulty(dir_.path());
  faulty.set_free_bytes(100);
  CheckpointStore store(faulty, options_);
  const Error error = error_of([&] { store.save(tiny_content(20), std::nullopt); });
  EXPECT_THAT(error.message,
              ::testing::MatchesRegex("cannot save the checkpoint of step 20: needs [0-9.]+ [KM]?i?B, 100 B free"));
  EXPECT_EQ(error.where, options_.directory);
  EXPECT_THAT(names(), ElementsAre("step-00000010"));
  faulty.set_free_bytes(1 << 20);
  store.save(tiny_content(20), std::nullopt);
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000020"));
}

TEST_F(StoreTest, AnOutputThatCannotBeMadeIsACheckpointError) {
  write_file(dir_ / "run", "a plain file");
  const Error error = error_of([&] { save(10); });
  EXPECT_THAT(error.message, HasSubstr("cannot save the checkpoint of step 10: "));
  EXPECT_THAT(error.message, HasSubstr("Not a directory"));
  EXPECT_FALSE(error.hint.empty());
}

TEST_F(StoreTest, KeepLastOfZeroIsRefused) {
  options_.keep_last = 0;
  EXPECT_THAT(error_of([&] { CheckpointStore(fs_, options_); }).message, HasSubstr("at least 1"));
}

TEST_F(StoreTest, StatesThatJsonWouldLoseAreRefused) {
  const auto refusal_of = [&](Json state) {
    CheckpointContent content = tiny_content(1);
    content.state = std::move(state);
    return error_of([&] { CheckpointStore(fs_, options_).save(content, std::nullopt); }, ErrorKind::kInternal).message;
  };
  EXPECT_THAT(refusal_of({{"loss", {{"last", std::numeric_limits<double>::quiet_NaN()}}}}), HasSubstr("json_number"));
  EXPECT_THAT(refusal_of({{"metric", 1}}), HasSubstr("without the item \"metric\""));
  EXPECT_THAT(refusal_of(Json()), HasSubstr("must be an object"));
  EXPECT_FALSE(fs_.exists(options_.directory));
}

TEST_F(StoreTest, NumbersOfTheStateComeBackToTheBit) {
  CheckpointContent content = tiny_content(1);
  content.state = {{"tenth", 0.1},
                   {"tiny", 4.9e-324},
                   {"big", std::numeric_limits<uint64_t>::max()},
                   {"negative", std::numeric_limits<int64_t>::min()},
                   {"whole", 2.0},
                   {"nan", json_number(std::numeric_limits<double>::quiet_NaN())}};
  const std::string path = CheckpointStore(fs_, options_).save(content, std::nullopt).path;
  EXPECT_EQ(load_checkpoint(fs_, path).state.dump(), content.state.dump());
}

TEST_F(StoreTest, TheSameTensorNameInModelAndOptimizerIsRefused) {
  CheckpointContent content = tiny_content(1);
  content.optimizer.push_back(content.model[0]);
  EXPECT_THAT(error_of([&] { CheckpointStore(fs_, options_).save(content, std::nullopt); }).message,
              HasSubstr("\"fc1.weight\" is stored twice"));
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace gputrain
