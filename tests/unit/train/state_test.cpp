#include <cmath>

#include <gmock/gmock.h>

#include "train/exactness.h"
#include "unit/train/train_rig.h"
#include "util/error.h"

namespace gputrain {
namespace {

using testing::alone;
using ::testing::HasSubstr;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

template <typename Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kInternal, "");
}

TEST(Counters, EpochEndsWithItsLastSample) {
  Counters counters;
  for (const int64_t samples : {10, 10, 10, 10}) counters.finish_step(samples, 46, false);
  EXPECT_EQ(counters.epoch, 0);
  EXPECT_EQ(counters.samples_in_epoch, 40);
  counters.finish_step(6, 46, true);
  EXPECT_EQ(counters.epoch, 1);
  EXPECT_EQ(counters.samples_in_epoch, 0);
  EXPECT_EQ(counters.step, 5);
  EXPECT_EQ(counters.updates, 4);
  EXPECT_EQ(counters.skipped, 1);
}

LoadedCheckpoint as_loaded(const CheckpointContent& content) {
  LoadedCheckpoint loaded;
  loaded.step = content.step;
  loaded.path = "runs/x/checkpoints/step-00000002";
  for (const auto& [name, tensor] : content.model) loaded.model[name] = tensor.detach().clone();
  for (const auto& [name, tensor] : content.optimizer) loaded.optimizer[name] = tensor.detach().clone();
  loaded.state = parse_json(content.state.dump(), "state.json");
  return loaded;
}

// A rig that has trained two fp16 steps, and what it would save.
struct Saved {
  TempDir directory;
  RunPlan plan;
  std::unique_ptr<Rig> rig;
  LoadedCheckpoint loaded;

  Saved() : plan(small_plan(directory.path())) {
    plan.train.precision = Precision::kFp16;
    rig = std::make_unique<Rig>(plan, alone());
    for (int i = 0; i < 2; ++i) {
      rig->runner->run(*rig->loader->next_step(), 10);
      rig->state.counters.finish_step(10, 46, false);
    }
    rig->state.counters.best = 0.1 + 0.2;
    rig->state.counters.evaluated_at = 1;
    rig->stamp.bucket_layout = rig->reducer->layout();
    loaded = as_loaded(content_of(rig->state, rig->stamp));
  }
};

TEST(State, SurvivesACheckpointToTheBit) {
  Saved saved;
  Rig fresh(saved.plan, alone());
  ASSERT_NE(fresh.hash(), saved.rig->hash());
  const StateStamp stamp = restore(fresh.state, saved.loaded);
  EXPECT_EQ(fresh.hash(), saved.rig->hash());
  EXPECT_EQ(fresh.state.counters, saved.rig->state.counters);
  EXPECT_EQ(fresh.state.scaler.state(), saved.rig->state.scaler.state());
  EXPECT_EQ(stamp.identity, saved.rig->stamp.identity);
  EXPECT_EQ(stamp.data, saved.rig->stamp.data);
  EXPECT_EQ(stamp.exactness, saved.rig->stamp.exactness);
  EXPECT_EQ(stamp.bucket_layout, saved.rig->stamp.bucket_layout);
}

TEST(State, EveryItemOfStateJsonIsNeededAndNoOtherIsTaken) {
  Saved saved;
  Rig fresh(saved.plan, alone());
  const std::string before = fresh.hash();
  const Json good = saved.loaded.state;
  ASSERT_GE(good.size(), 13u);
  for (const auto& [name, value] : good.items()) {
    saved.loaded.state = good;
    saved.loaded.state.erase(name);
    const Error error = error_of([&] { restore(fresh.state, saved.loaded); });
    EXPECT_EQ(error.kind, ErrorKind::kCheckpoint) << name;
    EXPECT_THAT(error.message, HasSubstr("\"" + name + "\"")) << name;
  }
  saved.loaded.state = good;
  saved.loaded.state["surprise"] = 1;
  EXPECT_THAT(error_of([&] { restore(fresh.state, saved.loaded); }).message, HasSubstr("unknown item \"surprise\""));
  for (const Json& bad : {Json(-1), Json(1.5), Json("3"), Json()}) {
    saved.loaded.state = good;
    saved.loaded.state["updates"] = bad;
    EXPECT_THAT(error_of([&] { restore(fresh.state, saved.loaded); }).message, HasSubstr("\"updates\" is"));
  }
  saved.loaded.state = good;
  saved.loaded.state["best"] = "nan";
  EXPECT_THAT(error_of([&] { restore(fresh.state, saved.loaded); }).message, HasSubstr("\"best\""));
  EXPECT_EQ(fresh.hash(), before) << "a refused checkpoint changes nothing";
}

TEST(State, NamesTensorsThatDoNotFit) {
  Saved saved;
  Rig fresh(saved.plan, alone());
  const std::string before = fresh.hash();
  LoadedCheckpoint bad = saved.loaded;
  bad.model.erase("fc1.bias");
  bad.model["fc9.weight"] = at::zeros({2});
  bad.model["fc2.weight"] = at::zeros({3, 3});
  bad.optimizer.erase("fc1.weight/exp_avg");
  const Error error = error_of([&] { restore(fresh.state, bad); });
  EXPECT_EQ(error.kind, ErrorKind::kCheckpoint);
  EXPECT_THAT(error.message, HasSubstr("has no tensor fc1.bias"));
  EXPECT_THAT(error.message, HasSubstr("unknown tensor fc9.weight"));
  EXPECT_THAT(error.message, HasSubstr("fc2.weight is Float[3, 3], the model needs Float[8, 16]"));
  EXPECT_THAT(error.message, HasSubstr("has no tensor fc1.weight/exp_avg"));
  EXPECT_EQ(fresh.hash(), before);
}

TEST(State, AScalerNeedsItsState) {
  Saved saved;
  RunPlan plan = saved.plan;
  plan.train.precision = Precision::kFp32;
  Rig fresh(plan, alone());
  EXPECT_THAT(error_of([&] { restore(fresh.state, saved.loaded); }).message, HasSubstr("scaler"));
}

TEST(SameRun, NamesEachItemThatChanged) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  StateStamp saved;
  saved.identity = identity_of(plan);
  saved.data = {{"samples", 46}};
  EXPECT_NO_THROW(check_same_run(saved, saved, "step-2"));
  plan.train.global_batch = 20;
  plan.seed = 8;
  StateStamp now = saved;
  now.identity = identity_of(plan);
  const Error error = error_of([&] { check_same_run(saved, now, "step-2"); });
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_EQ(error.where, "step-2");
  EXPECT_THAT(error.message, HasSubstr("train.global_batch was 10, is 20"));
  EXPECT_THAT(error.message, HasSubstr("seed was 7, is 8"));
  now = saved;
  now.data["samples"] = 47;
  const Error other_data = error_of([&] { check_same_run(saved, now, "step-2"); });
  EXPECT_EQ(other_data.kind, ErrorKind::kData);
  EXPECT_THAT(other_data.message, HasSubstr("changed since this checkpoint was saved: samples was 46, is 47"));
}

TEST(Exactness, SaysWhatChanged) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.launch.world_size = 2;
  plan.launch.hosts = {{"local", 2, {}, 2}};
  const Json saved = exactness_of(plan, 1, "cpu");
  EXPECT_EQ(exactness_notice(saved, saved), "");
  EXPECT_EQ(saved.dump().find("local"), std::string::npos) << "no host names in a checkpoint";
  plan.train.deterministic = true;
  EXPECT_EQ(exactness_notice(saved, exactness_of(plan, 1, "cpu")),
            "sample-exact, not bit-exact: deterministic false -> true");
  plan.train.deterministic = false;
  plan.launch.world_size = 3;
  plan.launch.hosts = {{"a", 2, {}, 2}, {"b", 1, {}, 2}};
  EXPECT_EQ(exactness_notice(saved, exactness_of(plan, 4, "cpu")),
            "sample-exact, not bit-exact: world_size 2 -> 3, ranks_per_host [2] -> [2,1], threads 1 -> 4");
  Json older = saved;
  older["isa"] = "AVX9";
  EXPECT_THAT(exactness_notice(older, saved), HasSubstr("isa \"AVX9\" -> "));
}

}  // namespace
}  // namespace gputrain
