#include "spec/dry_run.h"
#include "spec/resolve.h"
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

RunPlan smoke_plan(const Spec* base, const HostFacts& facts = {.cores = 2}) {
  return resolve(smoke_spec(base), facts, nullptr);
}

void expect_three_steps_on_two_ranks(const RunPlan& plan) {
  EXPECT_TRUE(plan.smoke);
  EXPECT_EQ(plan.launch.world_size, 2);
  EXPECT_EQ(plan.launch.max_restarts, 0);
  EXPECT_EQ(plan.train.max_steps, 3);
  EXPECT_EQ(plan.train.epochs, std::nullopt);
  EXPECT_EQ(plan.train.global_batch, 8);
  EXPECT_EQ(plan.train.micro_batch, 0);
  EXPECT_EQ(plan.data.train.format, "synthetic");
  EXPECT_EQ(plan.data.train.args["samples"], 24);
  EXPECT_EQ(plan.data.val, std::nullopt);
  EXPECT_TRUE(plan.data.train_transforms.empty());
  EXPECT_TRUE(plan.evaluate.never());
  EXPECT_TRUE(plan.checkpoint.every.never());
  EXPECT_EQ(plan.checkpoint.keep_best, "");
  EXPECT_EQ(plan.schedule.warmup.count, 0);
}

TEST(Smoke, WithoutASpecTrainsAnMlp) {
  const RunPlan plan = smoke_plan(nullptr);
  expect_three_steps_on_two_ranks(plan);
  EXPECT_EQ(plan.model.name, "mlp");
}

TEST(Smoke, TakesTheModelAndOptimizerOfASpec) {
  const Spec base = parse(read_repo_file("configs/fashion_mnist.yaml"));
  const RunPlan plan = smoke_plan(&base);
  expect_three_steps_on_two_ranks(plan);
  EXPECT_EQ(plan.model.name, "small_cnn");
  EXPECT_EQ(plan.data.train.args["shape"], Json::array({1, 28, 28}));
  EXPECT_EQ(plan.optimizer.args["weight_decay"], 0.05);
  EXPECT_EQ(plan.schedule.name, "cosine");
}

TEST(Smoke, DataHaveTheShapeThatTheModelSees) {
  const Spec resnet = parse(read_repo_file("configs/resnet50_raw.yaml"));
  EXPECT_EQ(smoke_plan(&resnet).data.train.args.dump(), R"({"samples":24,"shape":[3,64,64],"num_classes":100})");
  const Spec cropped =
      parse_with({"model={name: resnet18, args: {in_channels: 4, num_classes: 7}}", "data.train.shape=[4, 64, 64]",
                  "data.train.num_classes=7", "data.transforms.train=[{random_crop: {size: 48}}]"});
  EXPECT_EQ(smoke_plan(&cropped).data.train.args["shape"], Json::array({4, 48, 48}));
  const Spec features =
      parse_with({"model={name: mlp, args: {in_features: 5, num_classes: 3}}",
                  "data.train={format: idx, images: a, labels: b}", "data.transforms.train=[to_tensor]"});
  EXPECT_EQ(smoke_plan(&features).data.train.args.dump(), R"({"samples":24,"shape":[5],"num_classes":3})");
  const Spec channels =
      parse_with({"model={name: resnet18, args: {in_channels: 1, num_classes: 3}}",
                  "data.train={format: idx, images: a, labels: b}", "data.transforms.train=[to_tensor]"});
  EXPECT_EQ(smoke_plan(&channels).data.train.args["shape"], Json::array({1, 64, 64}));
}

TEST(Smoke, ExplicitFlagsStayStronger) {
  const Override ranks = {OriginKind::kFlag, "--nproc-per-node", "launch.nproc_per_node", "3"};
  const Spec base = parse(std::string(kGood), {ranks, parse_set("train.max_steps=5")});
  const RunPlan plan = smoke_plan(&base, {.cores = 4});
  EXPECT_EQ(plan.launch.world_size, 3);
  EXPECT_EQ(plan.train.global_batch, 12);
  EXPECT_EQ(plan.train.max_steps, 5);
}

TEST(Smoke, TakesTheCpuWhereThereAreFewerGpusThanRanks) {
  EXPECT_EQ(smoke_plan(nullptr, {.cores = 4, .gpus = 1, .cuda_library = true}).launch.backend, Backend::kGloo);
  EXPECT_EQ(smoke_plan(nullptr, {.cores = 4, .gpus = 2, .cuda_library = true}).launch.backend, Backend::kNccl);
}

TEST(Smoke, IsAValidSpecWhenWrittenOut) {
  const Spec base = parse(read_repo_file("configs/resnet50_raw.yaml"));
  EXPECT_THAT(problems(to_yaml(smoke_spec(&base))), testing::IsEmpty());
  EXPECT_THAT(problems(to_yaml(smoke_spec(nullptr))), testing::IsEmpty());
}

TEST(DryRun, ShowsRanksSharesAndOrigins) {
  const Spec spec = parse_with({"train.global_batch=17", "train.micro_batch=4", "launch.hosts=[local, local]"});
  std::vector<Notice> notices;
  const RunPlan plan = resolve(spec, {.cores = 4, .cwd = "/w"}, &notices);
  const std::string text = render_dry_run(plan, spec, notices);
  EXPECT_THAT(text, StartsWith("demo: 2 ranks on 2 agents, gloo, a global batch of 17 samples\n"
                               "output: /w/runs/demo\n\n"
                               "rank  host             device  threads  samples  of the batch  micro-batches\n"
                               "0     local (agent 1)  cpu     2        8        [0, 8)        2 x 4\n"
                               "1     local (agent 2)  cpu     2        9        [8, 17)       2 x 4 + 1\n\n"
                               "notice: "));
  EXPECT_THAT(text, HasSubstr("train.global_batch      --set      17\n"));
  EXPECT_THAT(text, HasSubstr("train.epochs            a.yaml:7   2\n"));
  EXPECT_THAT(text, HasSubstr("launch.nproc_per_node   default    auto = 1, 1\n"));
  EXPECT_THAT(text, HasSubstr("launch.backend          default    auto = gloo\n"));
}

TEST(DryRun, AsJson) {
  const Spec spec = parse_with({"train.global_batch=17"});
  std::vector<Notice> notices;
  const RunPlan plan = resolve(spec, {.cores = 64, .gpus = 2, .cuda_library = true}, &notices);
  const Json json = dry_run_json(plan, spec, notices);
  EXPECT_EQ(json["ranks"][1].dump(),
            R"({"rank":1,"host":"local","device":"cuda:1","threads":32,"begin":8,"end":17,"micro_batches":[9]})");
  EXPECT_EQ(json["notices"][0]["word"], "uneven_shares");
  EXPECT_EQ(json["plan"], to_json(plan));
  EXPECT_EQ(json["settings"][0].dump(), R"({"key":"name","value":"demo","origin":"a.yaml:1"})");
}

}  // namespace
}  // namespace gputrain
