// RunPlan as JSON, and what a checkpoint must agree with.
#include "spec/plan.h"

#include "spec/fields.h"
#include "spec/resolve.h"
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunPlan full_plan() {
  RunPlan plan;
  plan.name = "a \"b\"";
  plan.output = "/out";
  plan.seed = 0xffffffffffffffffu;
  plan.launch.hosts = {{"local", 2, {0, 1}, 8}, {"local", 1, {2}, 8}};
  plan.launch.world_size = 3;
  plan.launch.backend = Backend::kNccl;
  plan.launch.max_duration = Milliseconds(1500);
  plan.model = {"mlp", {{"hidden", {1, 2}}, {"dropout", 0.1}}};
  plan.data.train = {"idx", {{"images", "/a"}, {"labels", "/b"}}};
  plan.data.val = DataSourcePlan{"synthetic", {{"samples", 3}}};
  plan.data.train_transforms = {{"to_tensor", Json::object()}, {"normalize", {{"mean", {0.1}}}}};
  plan.data.tail = Tail::kDrop;
  plan.train.epochs = 5;
  plan.train.global_batch = 256;
  plan.train.precision = Precision::kFp16;
  plan.train.clip_grad_norm = 0.1;
  plan.optimizer = {"adamw", {{"lr", 2e-3}}};
  plan.schedule.warmup = {1, Length::Unit::kEpochs};
  plan.schedule.granularity = Granularity::kEpoch;
  plan.evaluate.length = Length{500, Length::Unit::kSteps};
  plan.checkpoint.every.duration = Milliseconds(600000);
  plan.log.length = Length{1, Length::Unit::kSteps};
  plan.log.duration = Milliseconds(1000);
  plan.smoke = true;
  return plan;
}

TEST(PlanJson, RoundTripsExactly) {
  const Json json = to_json(full_plan());
  const RunPlan back = run_plan_from_json(parse_json(json.dump(), "plan.json"));
  EXPECT_EQ(to_json(back).dump(), json.dump());
  EXPECT_EQ(back.seed, 0xffffffffffffffffu);
  EXPECT_EQ(back.launch.hosts[1].gpus, std::vector<int>{2});
  EXPECT_EQ(back.launch.max_duration, Milliseconds(1500));
  EXPECT_EQ(back.data.train_transforms, full_plan().data.train_transforms);
  EXPECT_EQ(back.train.max_steps, std::nullopt);
  EXPECT_EQ(back.train.clip_grad_norm, 0.1);
  EXPECT_EQ(back.evaluate, full_plan().evaluate);
  EXPECT_EQ(back.log, full_plan().log);
}

TEST(PlanJson, IsReadable) {
  const Json json = to_json(full_plan());
  EXPECT_EQ(json["launch"]["backend"], "nccl");
  EXPECT_EQ(json["launch"]["grace"], "30s");
  EXPECT_EQ(json["schedule"]["warmup"], "1 epoch");
  EXPECT_EQ(json["checkpoint"]["every"]["duration"], "10m");
  EXPECT_TRUE(json["train"]["max_steps"].is_null());
}

// Every item below `json`, as JSON pointers.
std::vector<Json::json_pointer> items_of(const Json& json, const Json::json_pointer& at = Json::json_pointer()) {
  std::vector<Json::json_pointer> all;
  if (!json.is_object()) return all;
  for (const auto& [key, value] : json.items()) {
    all.push_back(at / key);
    if (key == "args") continue;  // of the catalog's shape, not the plan's
    const auto below = items_of(value, at / key);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

TEST(PlanJson, AnyMissingItemIsRefused) {
  const Json json = to_json(full_plan());
  const auto items = items_of(json);
  ASSERT_GT(items.size(), 60u);
  for (const auto& item : items) {
    Json broken = json;
    broken[item.parent_pointer()].erase(item.back());
    try {
      run_plan_from_json(broken);
      ADD_FAILURE() << item.to_string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kInternal);
      EXPECT_THAT(error.message, HasSubstr("lacks \"plan.")) << item.to_string();
      EXPECT_THAT(error.message, HasSubstr(item.back()));
    }
  }
}

TEST(PlanJson, UnknownItemsAndOtherTypesAreRefused) {
  auto refuses = [](auto&& change) {
    Json json = to_json(full_plan());
    change(json);
    EXPECT_THROW(run_plan_from_json(json), Error) << json.dump();
  };
  refuses([](Json& json) { json["news"] = 1; });
  refuses([](Json& json) { json["launch"]["hosts"][0]["news"] = 1; });
  refuses([](Json& json) { json["name"] = 1; });
  refuses([](Json& json) { json["smoke"] = 1; });
  refuses([](Json& json) { json["train"]["global_batch"] = 1.5; });
  refuses([](Json& json) { json["train"]["precision"] = "fp8"; });
  refuses([](Json& json) { json["train"]["precision"] = ""; });
  refuses([](Json& json) { json["launch"]["grace"] = 30; });
  refuses([](Json& json) { json["launch"] = Json::array(); });
  refuses([](Json& json) { json["launch"]["hosts"] = Json::object(); });
  EXPECT_THROW(run_plan_from_json(Json()), Error);
}

TEST(PlanJson, OfAResolvedSpecRoundTrips) {
  const RunPlan plan = resolve(parse(std::string(kGood)), {}, nullptr);
  EXPECT_EQ(to_json(run_plan_from_json(to_json(plan))).dump(), to_json(plan).dump());
}

RunPlan plan_with(const std::vector<std::string>& sets) {
  return resolve(parse_with(sets), {}, nullptr);
}

TEST(Identity, IsAFlatObject) {
  EXPECT_EQ(
      identity_of(plan_with({})).dump(),
      R"({"seed":7,"task":"classification","model.name":"mlp","model.torchscript":"none",)"
      R"("model.plugin":"none","model.freeze":[],"model.args.in_features":784,"model.args.hidden":[32],)"
      R"("model.args.num_classes":10,"model.args.dropout":0.0,"data.train.format":"synthetic","data.train.samples":100,)"
      R"("data.train.shape":[1,28,28],"data.train.num_classes":10,"data.train.targets":"class",)"
      R"("data.tail":"use","train.global_batch":16,)"
      R"("train.precision":"fp32"})");
}

TEST(Identity, LeavesPathsToTheFingerprint) {
  const Json identity =
      identity_of(plan_with({"data.train={format: raw, inputs: {path: a, shape: [784], dtype: float32}, targets: "
                             "{path: b, shape: [], dtype: int64}}"}));
  EXPECT_EQ(identity["data.train.format"], "raw");
  EXPECT_EQ(identity["data.train.inputs.shape"], Json::array({784}));
  EXPECT_EQ(identity["data.train.targets.dtype"], "int64");
  EXPECT_FALSE(identity.contains("data.train.inputs"));
  EXPECT_FALSE(identity.contains("data.train.inputs.path"));
}

TEST(Identity, HoldsWhatTheFieldTableSaysMustStay) {
  const Json identity = identity_of(plan_with({}));
  for (const auto& field : fields()) {
    bool held = false;
    for (const auto& [key, value] : identity.items()) {
      held |= key == field.key || key.starts_with(std::string(field.key) + ".");
    }
    EXPECT_EQ(held, field.on_resume == OnResume::kSame) << field.key;
  }
}

TEST(Resume, TheSameSpecMayContinue) {
  const Json old = identity_of(plan_with({}));
  EXPECT_THAT(compare_for_resume(old, plan_with({}), parse_with({})), IsEmpty());
  const std::vector<std::string> allowed = {"train.epochs=9",          "optimizer.lr=1",   "schedule.name=cosine",
                                            "launch.nproc_per_node=1", "name=other",       "checkpoint.every=5m",
                                            "train.micro_batch=2",     "output=/elsewhere"};
  EXPECT_THAT(compare_for_resume(old, plan_with(allowed), parse_with(allowed)), IsEmpty());
}

TEST(Resume, EveryDifferenceIsNamedWithItsPlace) {
  const Json old = identity_of(plan_with({"seed=1", "train.global_batch=32", "model.args.hidden=[8]"}));
  const auto errors = compare_for_resume(old, plan_with({}), parse(std::string(kGood)));
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(exit_code(errors[0].kind), ExitCode::kSpec);
  EXPECT_EQ(
      errors[0].render(),
      "a.yaml:2:7: seed: the run in this output directory was started with 1, now it is 7\n"
      "    2 | seed: 7\n"
      "      |       ^\n"
      "hint: restore the old value, choose another output, or start over with --resume never; gputrain explain seed");
  EXPECT_EQ(errors[1].where, "a.yaml:3:35");
  EXPECT_THAT(errors[1].message,
              HasSubstr("model.args.hidden: the run in this output directory was started with [8], now it is [32]"));
  EXPECT_EQ(errors[2].where, "a.yaml:8:17");
}

TEST(Resume, AnotherModelNamesItsArgumentsToo) {
  const Json old = identity_of(plan_with({}));
  const std::vector<std::string> sets = {"model={name: small_cnn}"};
  const auto errors = rendered(compare_for_resume(old, plan_with(sets), parse_with(sets)));
  EXPECT_THAT(
      errors,
      testing::Contains(HasSubstr(
          "--set: model.name: the run in this output directory was started with \"mlp\", now it is \"small_cnn\"")));
  EXPECT_THAT(errors,
              testing::Contains(HasSubstr(
                  "model.args.hidden: the run in this output directory was started with [32], now it is absent")));
}

}  // namespace
}  // namespace gputrain
