#include "spec/resolve.h"

#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kCpu = [](int cores) {
  return HostFacts{.cores = cores, .gpus = 0, .cuda_library = true, .cwd = "/home/me"};
};
constexpr auto kGpus = [](int gpus) {
  return HostFacts{.cores = 32, .gpus = gpus, .cuda_library = true, .cwd = "/home/me"};
};

RunPlan plan_of(const std::vector<std::string>& sets, const HostFacts& facts = kCpu(4),
                std::vector<Notice>* notices = nullptr) {
  return resolve(parse_with(sets), facts, notices);
}

std::vector<Error> resolve_errors(const std::vector<std::string>& sets, const HostFacts& facts) {
  const Spec spec = parse_with(sets);
  return errors_of([&] { resolve(spec, facts, nullptr); });
}

std::vector<std::string> words_of(const std::vector<std::string>& sets, const HostFacts& facts) {
  std::vector<Notice> notices;
  plan_of(sets, facts, &notices);
  std::vector<std::string> words;
  for (const auto& notice : notices) words.push_back(notice.word);
  return words;
}

std::vector<int> slots_of(const RunPlan& plan) {
  std::vector<int> slots;
  for (const auto& host : plan.launch.hosts) slots.push_back(host.slots);
  return slots;
}

TEST(Resolve, DefaultsOnACpu) {
  const RunPlan plan = plan_of({});
  EXPECT_EQ(plan.name, "demo");
  EXPECT_EQ(plan.output, "/home/me/runs/demo");
  EXPECT_EQ(plan.seed, 7u);
  EXPECT_EQ(plan.launch.world_size, 2);
  EXPECT_EQ(plan.launch.backend, Backend::kGloo);
  EXPECT_EQ(plan.launch.omp_threads, 2);
  EXPECT_EQ(plan.launch.grace, Milliseconds(30000));
  EXPECT_EQ(plan.launch.lease, Milliseconds(2000));
  EXPECT_EQ(plan.launch.max_duration, std::nullopt);
  EXPECT_EQ(plan.launch.max_restarts, 2);
  ASSERT_EQ(plan.launch.hosts.size(), 1u);
  EXPECT_EQ(plan.launch.hosts[0].cores, 4);
  EXPECT_THAT(plan.launch.hosts[0].gpus, IsEmpty());
  EXPECT_EQ(plan.model.args.dump(), R"({"in_features":784,"hidden":[32],"num_classes":10,"dropout":0.0})");
  EXPECT_EQ(plan.data.train.args.dump(), R"({"samples":100,"shape":[1,28,28],"num_classes":10,"targets":"class"})");
  EXPECT_EQ(plan.data.workers, 1);
  EXPECT_EQ(plan.data.prefetch, 4);
  EXPECT_FALSE(plan.data.pin_memory);
  EXPECT_EQ(plan.train.epochs, 2);
  EXPECT_EQ(plan.train.max_steps, std::nullopt);
  EXPECT_EQ(plan.train.micro_batch, 0);
  EXPECT_EQ(plan.train.clip_grad_norm, 0);
  EXPECT_EQ(plan.optimizer.args.dump(), R"({"lr":0.001,"weight_decay":0.01,"betas":[0.9,0.999],"eps":1e-08})");
  EXPECT_EQ(plan.schedule.name, "constant");
  EXPECT_EQ(plan.schedule.warmup.count, 0);
  EXPECT_TRUE(plan.evaluate.never());
  EXPECT_EQ(plan.checkpoint.every.duration, Milliseconds(600000));
  EXPECT_EQ(plan.checkpoint.keep_best, "");
  EXPECT_EQ(plan.log.length, (Length{1, Length::Unit::kSteps}));
  EXPECT_EQ(plan.reducer, "c10d");
  EXPECT_FALSE(plan.smoke);
}

TEST(Resolve, RanksOfOneMachine) {
  EXPECT_THAT(slots_of(plan_of({}, kCpu(1))), ElementsAre(1));
  EXPECT_THAT(slots_of(plan_of({}, kCpu(64))), ElementsAre(2));
  EXPECT_THAT(slots_of(plan_of({"launch.nproc_per_node=3"}, kCpu(64))), ElementsAre(3));
  EXPECT_THAT(slots_of(plan_of({"launch.hosts=[local:5]"}, kCpu(64))), ElementsAre(5));
  EXPECT_THAT(slots_of(plan_of({}, kGpus(4))), ElementsAre(4));
  EXPECT_THAT(plan_of({}, kGpus(4)).launch.hosts[0].gpus, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(slots_of(plan_of({"launch.nproc_per_node=3"}, kGpus(4))), ElementsAre(3));
  EXPECT_THAT(plan_of({"launch.nproc_per_node=3"}, kGpus(4)).launch.hosts[0].gpus, ElementsAre(0, 1, 2));
  EXPECT_THAT(slots_of(plan_of({"launch.backend=gloo"}, kGpus(4))), ElementsAre(2));
}

TEST(Resolve, TwoAgentsDivideTheMachine) {
  const std::string hosts = "launch.hosts=[local, local]";
  const RunPlan cpu = plan_of({hosts}, kCpu(5));
  EXPECT_THAT(slots_of(cpu), ElementsAre(1, 1));
  EXPECT_EQ(cpu.launch.world_size, 2);
  EXPECT_EQ(cpu.launch.hosts[0].cores, 2);
  EXPECT_EQ(cpu.launch.hosts[1].cores, 3);
  EXPECT_EQ(cpu.launch.omp_threads, 2);
  EXPECT_THAT(slots_of(plan_of({hosts}, kCpu(1))), ElementsAre(1, 1));
  EXPECT_EQ(plan_of({hosts}, kCpu(1)).launch.omp_threads, 1);
  EXPECT_THAT(slots_of(plan_of({"launch.hosts=[local:1, local:2]"}, kCpu(5))), ElementsAre(1, 2));

  const RunPlan gpus = plan_of({hosts}, kGpus(5));
  EXPECT_THAT(gpus.launch.hosts[0].gpus, ElementsAre(0, 1));
  EXPECT_THAT(gpus.launch.hosts[1].gpus, ElementsAre(2, 3, 4));
  EXPECT_EQ(gpus.launch.world_size, 5);
}

TEST(C25, NcclWithoutGpusNamesBothNumbers) {
  const auto errors = resolve_errors({"launch.backend=nccl", "launch.nproc_per_node=8"}, kCpu(4));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, ErrorKind::kEnvironment);
  EXPECT_EQ(exit_code(errors[0].kind), ExitCode::kEnvironment);
  EXPECT_THAT(errors[0].render(),
              HasSubstr("--set: launch.backend: nccl needs a GPU for each rank: 8 ranks on 0 GPUs"));
}

TEST(C25, NcclWithoutItsLibrary) {
  HostFacts facts = kGpus(2);
  facts.cuda_library = false;
  EXPECT_THAT(rendered(resolve_errors({"launch.backend=nccl"}, facts)),
              ElementsAre(HasSubstr("needs libgputrain_cuda.so")));
  EXPECT_EQ(plan_of({}, facts).launch.backend, Backend::kGloo);
  EXPECT_THAT(words_of({}, facts), ElementsAre("cpu_only"));
}

TEST(C25, MoreRanksThanGpus) {
  const auto one = resolve_errors({"launch.nproc_per_node=8"}, kGpus(1));
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].kind, ErrorKind::kEnvironment);
  EXPECT_THAT(one[0].render(),
              HasSubstr("--set: launch.nproc_per_node: 8 ranks on 1 GPU\nhint: use at most one rank a GPU"));
  EXPECT_THAT(rendered(resolve_errors({"launch.hosts=[local, local]"}, kGpus(1))),
              ElementsAre(HasSubstr("launch.hosts[0]: 1 rank on 0 GPUs of agent 1 (1 GPU divided among 2 agents)")));
  EXPECT_THAT(rendered(resolve_errors({"launch.hosts=[local:3]"}, kGpus(2))),
              ElementsAre(HasSubstr("3 ranks on 2 GPUs")));
  EXPECT_THAT(problems_with({"launch.nproc_per_node=0"}),
              ElementsAre(HasSubstr("expected auto or an integer from 1 to 4096")));
}

TEST(C25, NoGpuIsANotice) {
  EXPECT_THAT(words_of({}, kCpu(2)), ElementsAre("cpu_only"));
}

TEST(Resolve, ABatchSmallerThanTheRanks) {
  const auto errors = resolve_errors({"train.global_batch=2", "launch.nproc_per_node=3"}, kCpu(4));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, ErrorKind::kSpec);
  EXPECT_THAT(errors[0].render(), HasSubstr("--set: train.global_batch: 2 samples cannot be divided among 3 ranks"));
}

TEST(Resolve, AMicroBatchLargerThanTheLargestShare) {
  EXPECT_THAT(
      rendered(resolve_errors({"train.global_batch=16", "train.micro_batch=7", "launch.nproc_per_node=3"}, kCpu(4))),
      ElementsAre(HasSubstr(
          "--set: train.micro_batch: 7 is more than a rank's share: 16 samples on 3 ranks are at most 6 each\n"
          "hint: use at most 6, or auto")));
  EXPECT_EQ(plan_of({"train.global_batch=16", "train.micro_batch=6", "launch.nproc_per_node=3"}).train.micro_batch, 6);
}

TEST(Resolve, SpecErrorsStandBeforeThoseOfTheMachine) {
  const auto errors = resolve_errors({"train.global_batch=2", "launch.nproc_per_node=3"}, kGpus(1));
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].kind, ErrorKind::kSpec);
  EXPECT_EQ(errors[1].kind, ErrorKind::kEnvironment);
}

TEST(Resolve, ErrorsPointIntoTheFile) {
  const Spec spec = parse(good_with("global_batch: 16", "global_batch: 1"));
  EXPECT_EQ(rendered(errors_of([&] { resolve(spec, kCpu(4), nullptr); })).at(0),
            "a.yaml:8:17: train.global_batch: 1 sample cannot be divided among 2 ranks: each needs at least one\n"
            "    8 |   global_batch: 1\n"
            "      |                 ^\n"
            "hint: use a larger global_batch or fewer ranks; gputrain explain train.global_batch");
}

TEST(Resolve, Notices) {
  EXPECT_THAT(words_of({"train.global_batch=17"}, kGpus(2)), ElementsAre("uneven_shares"));
  EXPECT_THAT(words_of({"train.precision=fp16"}, kGpus(2)), IsEmpty());
  EXPECT_THAT(words_of({"train.precision=fp16"}, kCpu(2)), ElementsAre("cpu_only", "slow_precision"));
  EXPECT_THAT(words_of({"train.max_steps=4"}, kGpus(2)), ElementsAre("two_limits"));
  EXPECT_THAT(words_of({"launch.nproc_per_node=3"}, kCpu(2)),
              ElementsAre("cpu_only", "oversubscribed", "uneven_shares"));
  EXPECT_THAT(words_of({"data.pin_memory=true"}, kCpu(2)), ElementsAre("cpu_only", "no_pinning"));
  std::vector<Notice> notices;
  plan_of({"train.global_batch=17"}, kGpus(2), &notices);
  EXPECT_EQ(notices.at(0).text, "the global batch of 17 is not divisible by 2 ranks: ranks take 8 or 9 samples");
}

TEST(Resolve, WhatAutoMeansOnGpus) {
  const RunPlan plan = plan_of({}, kGpus(8));
  EXPECT_EQ(plan.launch.backend, Backend::kNccl);
  EXPECT_EQ(plan.launch.omp_threads, 4);
  EXPECT_EQ(plan.data.workers, 3);
  EXPECT_TRUE(plan.data.pin_memory);
  EXPECT_EQ(plan.log.duration, Milliseconds(1000));
  EXPECT_EQ(plan.log.length, std::nullopt);
  EXPECT_EQ(plan_of({}, kGpus(2)).data.workers, 4);
  EXPECT_FALSE(plan_of({"data.pin_memory=false"}, kGpus(2)).data.pin_memory);
}

TEST(Resolve, PathsAreBelowTheWorkingDirectory) {
  const std::string idx = "data.train={format: idx, images: ./a/b.gz, labels: /abs/c}";
  const RunPlan plan = plan_of({idx, "data.transforms.train=[to_tensor]", "output=../out"});
  EXPECT_EQ(plan.data.train.args["images"], "/home/me/a/b.gz");
  EXPECT_EQ(plan.data.train.args["labels"], "/abs/c");
  EXPECT_EQ(plan.output, "/home/me/../out");
  const RunPlan raw =
      plan_of({"data.train={format: raw, inputs: {path: x, shape: [784], dtype: float32}, targets: {path: y, shape: "
               "[], dtype: uint8}}"});
  EXPECT_EQ(raw.data.train.args.dump(), R"({"inputs":{"path":"/home/me/x","shape":[784],"dtype":"float32","offset":0},)"
                                        R"("targets":{"path":"/home/me/y","shape":[],"dtype":"uint8","offset":0}})");
}

TEST(Resolve, Recurring) {
  const std::string val = "data.val={format: synthetic, samples: 9, shape: [784], num_classes: 10}";
  EXPECT_EQ(plan_of({val}).evaluate.length, (Length{1, Length::Unit::kEpochs}));
  EXPECT_EQ(plan_of({val, "evaluate.every=500 steps"}).evaluate.length, (Length{500, Length::Unit::kSteps}));
  EXPECT_EQ(plan_of({val, "evaluate.every=90s"}).evaluate.duration, Milliseconds(90000));
  EXPECT_TRUE(plan_of({val, "evaluate.every=never"}).evaluate.never());
  EXPECT_TRUE(plan_of({"checkpoint.every=never"}).checkpoint.every.never());
  const RunPlan best = plan_of({val, "checkpoint.keep_best=loss"});
  EXPECT_EQ(best.checkpoint.keep_best, "loss");
  EXPECT_FALSE(best.checkpoint.best_is_larger);
  EXPECT_TRUE(plan_of({val, "checkpoint.keep_best=accuracy"}).checkpoint.best_is_larger);
}

TEST(Resolve, Schedule) {
  const RunPlan plan =
      plan_of({"schedule={name: cosine, warmup: 1 epoch, warmup_start: 0.1, final_factor: 0.01, granularity: epoch}"});
  EXPECT_EQ(plan.schedule.name, "cosine");
  EXPECT_EQ(plan.schedule.warmup, (Length{1, Length::Unit::kEpochs}));
  EXPECT_EQ(plan.schedule.warmup_start, 0.1);
  EXPECT_EQ(plan.schedule.args, (Json{{"final_factor", 0.01}}));
  EXPECT_EQ(plan.schedule.granularity, Granularity::kEpoch);
}

TEST(Resolve, ScheduleArgumentsAreOfItsEntryWithDefaults) {
  EXPECT_EQ(plan_of({"schedule={name: wsd, decay: 10%}"}).schedule.args,
            (Json{{"decay", "10%"}, {"final_factor", 0.0}, {"shape", "linear"}}));
  const RunPlan plan = plan_of({"schedule={name: multistep, milestones: [1 epoch, 75%], warmup: 2.5%}"});
  EXPECT_EQ(plan.schedule.args, (Json{{"milestones", {"1 epoch", "75%"}}, {"gamma", 0.1}}));
  EXPECT_EQ(plan.schedule.warmup, (Length{250, Length::Unit::kPercent}));
}

TEST(Resolve, VolumesHaveNoDeterministicKernelsOnGpusAndNoSafeBf16OnTheCpu) {
  const auto volume = [](const std::string& train, const HostFacts& facts) {
    const Spec spec =
        parse("name: v\ntask: segmentation\nmodel: {name: unet3d}\ntrain: {max_steps: 1, global_batch: 4, " + train +
              "}\noptimizer: {lr: 1}\ndata: {train: {format: synthetic, samples: 8, shape: [1, 32, 32, 32], "
              "num_classes: 2, targets: mask}}\n");
    std::vector<std::string> keys;
    for (const Error& error : errors_of([&] { resolve(spec, facts, nullptr); })) keys.push_back(error.message);
    return keys;
  };
  const HostFacts gpus{.cores = 4, .gpus = 1, .cuda_library = true}, none{.cores = 4};
  EXPECT_THAT(volume("precision: bf16", none), ElementsAre(HasSubstr("bf16 is not safe for volumes on the CPU")));
  EXPECT_THAT(volume("precision: bf16", gpus), IsEmpty());
  EXPECT_THAT(volume("deterministic: true", gpus),
              ElementsAre(HasSubstr("no deterministic kernels on GPUs for unet3d")));
  EXPECT_THAT(volume("deterministic: true", none), IsEmpty());
}

}  // namespace
}  // namespace gputrain
