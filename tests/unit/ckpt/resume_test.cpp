// Which checkpoint a run continues from, and what it is told about the others.
#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"
#include "ckpt/xxh3.h"
#include "unit/ckpt/ckpt_testing.h"

namespace gputrain {
namespace {

using testing::error_of;
using testing::expect_tiny;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::tiny_content;
using testing::write_file;

class ResumeTest : public testing::CheckpointTest {
 protected:
  ResumeTest() {
    options_.keep_last = 10;
    options_.keep_best = "accuracy";
  }
  ResumeChoice resume(const std::string& mode = "auto", const std::string& path = "") {
    return load_for_resume(fs_, options_.directory, mode, path);
  }
  // Makes an unusable newest checkpoint with `spoil`, and gives the reason for which step 10 was taken instead.
  template <typename Spoil>
  std::string reason(Spoil spoil) {
    fs_.remove_all(options_.directory);
    save(10);
    save(20);
    spoil();
    const ResumeChoice choice = resume();
    expect_tiny(*choice.checkpoint, 10);
    EXPECT_EQ(choice.rejected.size(), 1U);
    EXPECT_EQ(choice.rejected[0].path, at(20));
    return choice.rejected[0].why;
  }
  // Changes the manifest of step 20 and makes it consistent again: an attack on the checks behind the hashes.
  void rewrite_manifest(const std::function<void(Manifest&)>& change) {
    const std::string path = at(20, "manifest.json");
    Manifest manifest = parse_manifest(fs_.read(path), path);
    change(manifest);
    write_file(path, manifest_text(manifest));
  }
};

TEST_F(ResumeTest, NothingSavedMeansAStartFromTheBeginning) {
  EXPECT_FALSE(resume().checkpoint);
  fs_.make_directories(options_.directory + "/.tmp-5-1");
  write_file(options_.directory + "/notes", "");
  const ResumeChoice choice = resume();
  EXPECT_FALSE(choice.checkpoint);
  EXPECT_THAT(choice.rejected, IsEmpty());
}

TEST_F(ResumeTest, TakesTheNewest) {
  for (const int64_t step : {100, 9, 20}) save(step);
  const ResumeChoice choice = resume();
  expect_tiny(*choice.checkpoint, 100);
  EXPECT_EQ(choice.checkpoint->path, at(100));
  EXPECT_THAT(choice.rejected, IsEmpty());
}

TEST_F(ResumeTest, NeverIgnoresWhatIsThere) {
  save(10);
  EXPECT_FALSE(resume("never").checkpoint);
}

TEST_F(ResumeTest, FallsBackAndSaysWhy) {
  EXPECT_EQ(reason([&] { fs_.remove_all(at(20, "manifest.json")); }), "no manifest.json");
  EXPECT_EQ(reason([&] { fs_.remove_all(at(20, "model.safetensors")); }), "model.safetensors is missing");
  EXPECT_THAT(reason([&] { write_file(at(20, "state.json"), "{}"); }),
              ::testing::MatchesRegex("state.json has 2 bytes, the manifest says [0-9]+"));
  EXPECT_THAT(reason([&] { write_file(at(20, "manifest.json"), "{}"); }),
              HasSubstr("manifest.json: not a valid manifest: the manifest lacks \"format\""));
  EXPECT_THAT(reason([&] {
                std::string bytes = fs_.read(at(20, "optimizer.safetensors"));
                bytes.back() ^= 1;
                write_file(at(20, "optimizer.safetensors"), bytes);
              }),
              ::testing::MatchesRegex("optimizer.safetensors is damaged: its hash is [0-9a-f]{16}, the manifest says "
                                      "[0-9a-f]{16}"));
  EXPECT_EQ(reason([&] {
              fs_.rename(at(20), at(30));
              fs_.rename(at(30), at(20));
              fs_.remove_all(at(20));
              fs_.make_directories(at(20));
            }),
            "no manifest.json");
  EXPECT_EQ(reason([&] {
              fs_.remove_all(at(20));
              write_file(at(20), "a plain file");
            }),
            "no manifest.json");
}

TEST_F(ResumeTest, ADirectoryUnderTheNameOfAnotherStepIsRejected) {
  save(10);
  fs_.rename(at(10), at(11));
  EXPECT_THAT(error_of([&] { resume(); }).message, HasSubstr("the manifest is of step 10"));
}

TEST_F(ResumeTest, ConsistentManifestsThatDoNotFitTheFilesAreRejected) {
  EXPECT_EQ(reason([&] { rewrite_manifest([](Manifest& m) { m.files.pop_back(); }); }),
            "the manifest lacks state.json");
  EXPECT_EQ(reason([&] { rewrite_manifest([](Manifest& m) { m.tensors.erase("fc1.bias"); }); }),
            "model.safetensors does not hold the tensors that the manifest lists for it");
  EXPECT_EQ(reason([&] { rewrite_manifest([](Manifest& m) { m.tensors.at("fc1.weight").dtype = "I32"; }); }),
            "model.safetensors does not hold the tensors that the manifest lists for it");
  EXPECT_EQ(reason([&] {
              rewrite_manifest([](Manifest& m) { m.tensors.at("fc1.bias").slices[0].file = "model-2.safetensors"; });
            }),
            "tensor \"fc1.bias\" is in no listed file");
  EXPECT_EQ(reason([&] {
              write_file(at(20, "extra.bin"), "");
              rewrite_manifest([](Manifest& m) { m.files.push_back({"extra.bin", 0, xxh3_hex("")}); });
            }),
            "the manifest lists the unknown file extra.bin");
}

TEST_F(ResumeTest, AStateThatIsNotOursIsRejected) {
  const auto spoil = [&](const std::string& state) {
    return reason([&] {
      write_file(at(20, "state.json"), state);
      rewrite_manifest([&](Manifest& m) {
        m.files[2] = {"state.json", static_cast<int64_t>(state.size()), xxh3_hex(state)};
      });
    });
  };
  EXPECT_THAT(spoil("{}"), HasSubstr("state.json: not a valid state file: "));
  EXPECT_THAT(spoil("[1]"), HasSubstr("not a valid state file"));
  EXPECT_THAT(spoil("{\"metric\": {\"name\": 1}}"), HasSubstr("not a valid state file"));
  EXPECT_THAT(spoil("{\"metric\": null, \"metric\": null}"), HasSubstr("appears twice"));
}

TEST_F(ResumeTest, WhenNoneVerifiesAllAreListedAndNothingStartsOver) {
  save(10);
  save(20);
  fs_.remove_all(at(10, "state.json"));
  fs_.remove_all(at(20, "manifest.json"));
  const Error error = error_of([&] { resume(); });
  EXPECT_EQ(error.message, "none of the 2 checkpoints verifies:\n  " + at(20) + ": no manifest.json\n  " + at(10) +
                               ": state.json is missing");
  EXPECT_EQ(error.where, options_.directory);
  EXPECT_THAT(error.hint, HasSubstr("--resume never"));
}

TEST_F(ResumeTest, ExtraFilesInACheckpointAreNobodysBusiness) {
  save(10);
  write_file(at(10, "notes.txt"), "good run");
  expect_tiny(*resume().checkpoint, 10);
}

TEST_F(ResumeTest, APathMayBeACheckpointARunOrItsCheckpoints) {
  save(10);
  save(20);
  expect_tiny(*resume("path", at(10)).checkpoint, 10);
  expect_tiny(*resume("path", at(10) + "/").checkpoint, 10);
  expect_tiny(*resume("path", options_.directory).checkpoint, 20);
  expect_tiny(*resume("path", dir_ / "run").checkpoint, 20);
  fs_.rename(at(10), dir_ / "copied-by-hand");
  expect_tiny(*resume("path", dir_ / "copied-by-hand").checkpoint, 10);
}

TEST_F(ResumeTest, APathWithoutACheckpointIsAnErrorNotAFreshStart) {
  save(10);
  EXPECT_EQ(error_of([&] { resume("path", dir_ / "none"); }).message, "no such directory");
  EXPECT_EQ(error_of([&] { resume("path", dir_.path()); }).message, "no checkpoint here");
}

TEST_F(ResumeTest, ADamagedPathDoesNotFallBack) {
  save(10);
  save(20);
  fs_.remove_all(at(20, "state.json"));
  const Error error = error_of([&] { resume("path", at(20)); });
  EXPECT_EQ(error.message, "state.json is missing");
  EXPECT_EQ(error.where, at(20));
}

TEST_F(ResumeTest, AnUnknownModeIsOurOwnFault) {
  EXPECT_THAT(error_of([&] { resume("always"); }).message, HasSubstr("unknown resume mode always"));
}

TEST_F(ResumeTest, ResolvesLatestBestAndPaths) {
  save(10, 0.9);
  save(20, 0.5);
  save(30);
  EXPECT_EQ(resolve_checkpoint(fs_, options_.directory, "latest"), at(30));
  EXPECT_EQ(resolve_checkpoint(fs_, options_.directory, "best"), at(10));
  EXPECT_EQ(resolve_checkpoint(fs_, options_.directory, at(20) + "/"), at(20));
  EXPECT_EQ(error_of([&] { resolve_checkpoint(fs_, options_.directory, dir_ / "x"); }).message,
            "not a checkpoint directory");
  write_file(at(30, "model.safetensors"), "damaged");
  EXPECT_EQ(resolve_checkpoint(fs_, options_.directory, "latest"), at(20));
}

TEST_F(ResumeTest, ADamagedBestIsAnErrorNotTheSecondBest) {
  save(10, 0.9);
  save(20, 0.5);
  std::string bytes = fs_.read(at(10, "model.safetensors"));
  bytes.back() ^= 1;
  write_file(at(10, "model.safetensors"), bytes);
  EXPECT_THAT(error_of([&] { resolve_checkpoint(fs_, options_.directory, "best"); }).message,
              HasSubstr("model.safetensors is damaged"));
}

TEST_F(ResumeTest, ResolvingNothingSaysSo) {
  EXPECT_EQ(error_of([&] { resolve_checkpoint(fs_, options_.directory, "latest"); }).message, "no checkpoint here");
  save(10);
  EXPECT_EQ(error_of([&] { resolve_checkpoint(fs_, options_.directory, "best"); }).message,
            "no checkpoint here has a keep_best metric");
}

}  // namespace
}  // namespace gputrain
