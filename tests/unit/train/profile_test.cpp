#include "train/profile.h"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "unit/train/train_rig.h"
#include "util/error.h"

namespace gputrain {
namespace {

using testing::alone;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

struct Traced {
  Traced(Rig& rig, int64_t first, int64_t last, FileSystem& fs = real_file_system())
      : path(rig.plan.output + "/profile/trace.json"),
        profile(fs, {first, last, path, false, [this](const std::string& text) { warnings.push_back(text); }}) {
    rig.marker.watch([this](Phase phase, int64_t step) { profile.enter(phase, step); });
  }
  bool exists() const { return real_file_system().exists(path); }
  Json events() const { return parse_json(real_file_system().read(path), path).at("traceEvents"); }

  std::string path;
  std::vector<std::string> warnings;
  Profile profile;
};

// Names of complete events that begin with `prefix`, in the order of time.
std::vector<std::string> names(const Json& events, const std::string& prefix) {
  std::map<double, std::string> found;
  for (const Json& event : events) {
    if (event.value("ph", "") != "X") continue;
    const std::string name = event.at("name").get<std::string>();
    if (name.starts_with(prefix)) found[event.at("ts").get<double>()] = name;
  }
  std::vector<std::string> list;
  for (const auto& [at, name] : found) list.push_back(name);
  return list;
}

TEST(Profile, TracesItsStepsAndNoOthers) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  Traced traced(rig, 3, 5);
  rig.run();
  ASSERT_TRUE(traced.exists());
  const Json events = traced.events();
  EXPECT_THAT(names(events, "ProfilerStep#"), ElementsAre("ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"));
  EXPECT_THAT(names(events, "forward"), ElementsAre("forward", "forward", "forward"));
  EXPECT_THAT(names(events, "backward"), ElementsAre("backward", "backward", "backward"));
  EXPECT_THAT(names(events, "optimizer"), ElementsAre("optimizer", "optimizer", "optimizer"));
  EXPECT_EQ(names(events, "aten::addmm").size(), 9u) << "three layers, three steps";
  EXPECT_THAT(traced.warnings, IsEmpty());
  EXPECT_FALSE(real_file_system().exists(traced.path + ".tmp"));
}

TEST(Profile, PhasesLieWithinTheirStep) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  Traced traced(rig, 2, 2);
  rig.run();
  double from = 0, to = 0;
  for (const Json& event : traced.events()) {
    if (event.at("name") != "ProfilerStep#2") continue;
    from = event.at("ts").get<double>();
    to = from + event.at("dur").get<double>();
  }
  for (const Json& event : traced.events()) {
    if (event.at("name") != "forward" && event.at("name") != "backward") continue;
    EXPECT_GE(event.at("ts").get<double>(), from);
    EXPECT_LE(event.at("ts").get<double>() + event.at("dur").get<double>(), to);
  }
}

TEST(Profile, ARunThatEndsBeforeWritesWhatItHas) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  Traced traced(rig, 9, 20);
  rig.run();
  ASSERT_TRUE(traced.exists());
  EXPECT_THAT(names(traced.events(), "ProfilerStep#"), ElementsAre("ProfilerStep#9", "ProfilerStep#10"));
}

TEST(Profile, AStopWritesWhatItHas) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  rig.runner->hooks().on_gradients = [&](int64_t step) {
    if (step == 2) rig.stop.raise(StopReason::kPreempted);
  };
  Traced traced(rig, 2, 20);
  EXPECT_EQ(rig.run().reason, StopReason::kPreempted);
  EXPECT_THAT(names(traced.events(), "ProfilerStep#").front(), "ProfilerStep#2");
}

TEST(Profile, OneThatIsGivenUpWritesWhatItHas) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  rig.runner->hooks().on_gradients = [](int64_t step) {
    if (step == 3) throw Error(ErrorKind::kNonFinite, "planted");
  };
  {
    Traced traced(rig, 2, 20);
    EXPECT_THROW(rig.run(), Error);
  }
  const std::string path = directory.path() + "/profile/trace.json";
  EXPECT_THAT(names(parse_json(real_file_system().read(path), path).at("traceEvents"), "ProfilerStep#"),
              ElementsAre("ProfilerStep#2", "ProfilerStep#3"));
}

// As in the worker: the error destroys it on its way to main, which tells the peers.
TEST(Profile, AnErrorDoesNotWaitForTheTrace) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  rig.runner->hooks().on_gradients = [](int64_t step) {
    if (step == 3) throw Error(ErrorKind::kNonFinite, "planted");
  };
  try {
    Traced traced(rig, 2, 20);
    rig.run();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(torch::autograd::profiler::profilerEnabled()) << "taking the trace apart takes long, too";
  }
  EXPECT_FALSE(real_file_system().exists(directory.path() + "/profile"));
  torch::autograd::profiler::disableProfiler();  // for the tests that follow
}

TEST(Profile, WritesNothingBeforeAStep) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  rig.stop.raise(StopReason::kPreempted);
  Traced traced(rig, 1, 3);
  rig.run();
  EXPECT_FALSE(real_file_system().exists(directory.path() + "/profile"));
}

TEST(Profile, AResumedRunTracesWhatIsLeftOfItsSteps) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.max_steps = 4;
  Rig(plan, alone()).run();
  plan.train.max_steps = 8;
  Rig rig(plan, alone());
  Traced traced(rig, 3, 6);
  rig.run();
  EXPECT_THAT(names(traced.events(), "ProfilerStep#"), ElementsAre("ProfilerStep#5", "ProfilerStep#6"));
}

TEST(Profile, TheCollectivesOfTwoRanksAreInTheirTraces) {
  TempDir directory;
  EXPECT_EQ(test::run_ranks(2,
                            [&](int rank, const CommOptions& options) {
                              RunPlan plan = small_plan(directory.path() + "/" + std::to_string(rank));
                              Rig rig(plan, make_comms(options));
                              Traced traced(rig, 2, 3);
                              rig.run();
                              EXPECT_THAT(names(traced.events(), "ProfilerStep#"),
                                          ElementsAre("ProfilerStep#2", "ProfilerStep#3"));
                              EXPECT_FALSE(names(traced.events(), "c10d::allreduce_").empty());
                            }),
            test::all_succeed(2));
}

TEST(Profile, ATraceThatCannotBeWrittenCostsNobodyTheRun) {
  TempDir directory;
  Rig rig(small_plan(directory.path()), alone());
  std::ofstream(directory.path() + "/profile") << "a file where the directory should be";
  Traced traced(rig, 3, 4);
  EXPECT_EQ(rig.run().step, 10);
  ASSERT_EQ(traced.warnings.size(), 1u);
  EXPECT_THAT(traced.warnings[0], HasSubstr("the profile was not written: "));
}

TEST(ProfilePath, NamesAttemptAndRank) {
  EXPECT_EQ(profile_path("/runs/a", 2, 13), "/runs/a/profile/attempt-0002/rank-00013.json");
}

}  // namespace
}  // namespace gputrain
