#include "spec/resolve.h"
#include "spec_testing.h"

namespace gputrain {
namespace {

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

TEST(Smoke, ASchedulesLengthsAreLeftOut) {
  const Spec base =
      parse(std::string(kGood) + "schedule: {name: multistep, milestones: [1 epoch, 2 epochs], warmup: 5%}\n");
  const RunPlan plan = smoke_plan(&base);
  EXPECT_EQ(plan.schedule.name, "constant");
  EXPECT_EQ(plan.schedule.args, Json::object());
  EXPECT_EQ(plan.schedule.warmup.count, 0);
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
  EXPECT_EQ(smoke_plan(&resnet).data.train.args.dump(),
            R"({"samples":24,"shape":[3,64,64],"num_classes":100,"targets":"class"})");
  const Spec cropped =
      parse_with({"model={name: resnet18, args: {in_channels: 4, num_classes: 7}}", "data.train.shape=[4, 64, 64]",
                  "data.train.num_classes=7", "data.transforms.train=[{random_crop: {size: 48}}]"});
  EXPECT_EQ(smoke_plan(&cropped).data.train.args["shape"], Json::array({4, 48, 48}));
  const Spec features =
      parse_with({"model={name: mlp, args: {in_features: 5, num_classes: 3}}",
                  "data.train={format: idx, images: a, labels: b}", "data.transforms.train=[to_tensor]"});
  EXPECT_EQ(smoke_plan(&features).data.train.args.dump(),
            R"({"samples":24,"shape":[5],"num_classes":3,"targets":"class"})");
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

}  // namespace
}  // namespace gputrain
