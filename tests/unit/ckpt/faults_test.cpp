// The writer fails, or loses power, at its k-th file operation, for every k: the directory still resumes from a
// verified state, nothing good is lost, and the next save succeeds.
#include <optional>
#include <set>

#include "ckpt/checkpoint.h"
#include "ckpt/layout.h"
#include "support/faulty_fs.h"
#include "support/temp_dir.h"
#include "unit/ckpt/ckpt_testing.h"

namespace gputrain {
namespace {

using testing::Crash;
using testing::expect_tiny;
using testing::FaultyFileSystem;
using testing::PowerLoss;
using testing::tiny_content;

struct Saved {
  int64_t step;
  std::optional<double> metric;
};

// A directory as it was, the save that is disturbed, and what may be asked of the result.
struct Scenario {
  const char* name;
  std::vector<Saved> before;
  std::optional<int64_t> damaged;  // of those before
  Saved save;
  std::set<int64_t> good_before;  // steps that verify before the save
  std::set<int64_t> good_after;   // ... and after it
};

void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

const Scenario kScenarios[] = {
    {"First", {}, std::nullopt, {10, std::nullopt}, {}, {10}},
    {"Pruning", {{10, 0.9}, {20, 0.5}, {25, std::nullopt}}, std::nullopt, {30, 0.7}, {10, 25}, {10, 30}},
    {"ReplacingDamaged", {{10, 0.9}, {20, std::nullopt}}, 20, {20, 0.5}, {10}, {10, 20}},
    {"ReplacingGood", {{10, 0.1}, {20, std::nullopt}}, std::nullopt, {20, 0.5}, {10, 20}, {20}},
};

// How the operation fails.
struct Fault {
  const char* name;
  bool persistent;
  std::optional<PowerLoss> loss;  // unset: an error, not a crash
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

const Fault kFaults[] = {
    {"FailsOnce", false, std::nullopt},           {"FailsForGood", true, std::nullopt},
    {"Killed", false, PowerLoss::kNothing},       {"LosesContents", false, PowerLoss::kContents},
    {"LosesEntries", false, PowerLoss::kEntries}, {"LosesAllUnsynced", false, PowerLoss::kUnsyncedGone},
};

class FaultsTest : public ::testing::TestWithParam<std::tuple<Scenario, Fault>> {
 protected:
  // One try in a directory of its own. False when the save was over before its k-th operation.
  bool try_at(int64_t k);

 private:
  static CheckpointOptions options(const testing::TempDir& dir) {
    CheckpointOptions options = testing::options_for(dir / "run/checkpoints");
    options.keep_last = 1;
    options.keep_best = "accuracy";
    return options;
  }
  static void prepare(FaultyFileSystem& fs, const CheckpointOptions& options, const Scenario& scenario) {
    for (const Saved& saved : scenario.before)
      CheckpointStore(fs, options).save(tiny_content(saved.step), saved.metric);
    if (scenario.damaged) {
      testing::write_file(options.directory + "/" + step_name(*scenario.damaged) + "/model.safetensors", "damaged");
    }
    fs.restart();  // all that is durable
  }
  static void arm(FaultyFileSystem& fs, const Fault& fault, int64_t k) {
    if (fault.loss) {
      fs.crash_at(k, *fault.loss);
    } else if (fault.persistent) {
      fs.fail_from(k);
    } else {
      fs.fail_at(k);
    }
  }
  // True when the save said that it succeeded.
  static bool attempt(CheckpointStore& store, const Saved& save) {
    try {
      store.save(tiny_content(save.step), save.metric);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kCheckpoint) << error.render();
    } catch (const Crash&) {
    }
    return false;
  }
  // The steps of which some candidate directory loads, to the bit.
  static std::set<int64_t> loadable(const std::string& directory) {
    std::set<int64_t> steps;
    for (const Candidate& candidate : list_candidates(real_file_system(), directory)) {
      try {
        expect_tiny(load_checkpoint(real_file_system(), candidate.path), candidate.step);
        steps.insert(candidate.step);
      } catch (const Error&) {
      }
    }
    return steps;
  }
  static bool includes(const std::set<int64_t>& set, const std::set<int64_t>& part) {
    return std::includes(set.begin(), set.end(), part.begin(), part.end());
  }
  static void expect_good_state(const std::string& directory, const Scenario& scenario, bool claimed);
  static void expect_next_saves_work(FaultyFileSystem& fs, const CheckpointOptions& options, const Scenario& scenario);
};

void FaultsTest::expect_good_state(const std::string& directory, const Scenario& scenario, bool claimed) {
  const std::set<int64_t> good = loadable(directory);
  EXPECT_TRUE(includes(good, scenario.good_after) || (!claimed && includes(good, scenario.good_before)));
  if (good.empty() && scenario.before.empty()) return;  // the very first save: nothing was there to keep
  const ResumeChoice choice = load_for_resume(real_file_system(), directory, "auto", "");
  ASSERT_TRUE(choice.checkpoint);
  expect_tiny(*choice.checkpoint, *good.rbegin());
}

void FaultsTest::expect_next_saves_work(FaultyFileSystem& fs, const CheckpointOptions& options,
                                        const Scenario& scenario) {
  CheckpointStore store(fs, options);
  store.sweep();
  EXPECT_TRUE(store.save(tiny_content(scenario.save.step), scenario.save.metric).warnings.empty());
  EXPECT_TRUE(includes(loadable(options.directory), scenario.good_after));
  EXPECT_EQ(resolve_checkpoint(fs, options.directory, "latest"),
            options.directory + "/" + step_name(scenario.save.step));
  // After one more everything that was left over is gone: the newest and the best remain.
  EXPECT_TRUE(store.save(tiny_content(100), std::nullopt).warnings.empty());
  std::vector<std::string> expected;
  if (scenario.save.metric) expected.push_back(step_name(*scenario.good_after.begin()));
  expected.push_back(step_name(100));
  EXPECT_EQ(fs.list(options.directory), expected);
  if (scenario.save.metric) {
    EXPECT_EQ(resolve_checkpoint(fs, options.directory, "best"), options.directory + "/" + expected[0]);
  }
}

bool FaultsTest::try_at(int64_t k) {
  const auto& [scenario, fault] = GetParam();
  const testing::TempDir dir(testing::memory_directory());
  const CheckpointOptions chosen = options(dir);
  FaultyFileSystem fs(dir.path());
  prepare(fs, chosen, scenario);
  EXPECT_EQ(loadable(chosen.directory), scenario.good_before);

  CheckpointStore store(fs, chosen);
  arm(fs, fault, k);
  const bool claimed = attempt(store, scenario.save);
  if (!fs.triggered()) {
    EXPECT_TRUE(claimed);
    if (fault.loss) fs.lose_power(*fault.loss);  // what was reported as saved is durable
    fs.restart();
    expect_good_state(chosen.directory, scenario, claimed);
    return false;
  }
  fs.restart();
  if (!fault.loss && !fault.persistent && !claimed) {
    for (const std::string& name : real_file_system().list(chosen.directory)) EXPECT_FALSE(is_temporary(name)) << name;
  }
  expect_good_state(chosen.directory, scenario, claimed);
  expect_next_saves_work(fs, chosen, scenario);
  return true;
}

TEST_P(FaultsTest, EveryOperation) {
  int64_t k = 1;
  while (k < 1000) {
    SCOPED_TRACE("operation " + std::to_string(k));
    if (!try_at(k) || HasFailure()) break;
    ++k;
  }
  EXPECT_GT(k, 20);  // a save has more operations than that: the fault was really placed
  EXPECT_LT(k, 1000);
}

INSTANTIATE_TEST_SUITE_P(All, FaultsTest,
                         ::testing::Combine(::testing::ValuesIn(kScenarios), ::testing::ValuesIn(kFaults)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace gputrain
