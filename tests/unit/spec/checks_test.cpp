// Values that are each right and together wrong: field case C09, data against model.
#include "spec/resolve.h"
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(C09, LengthOfTraining) {
  EXPECT_THAT(problems_with({"train.max_steps=10"}), IsEmpty());  // both: the first reached
  EXPECT_THAT(problems_with({"train.epochs=none", "train.max_steps=10"}), IsEmpty());
  EXPECT_THAT(problems(good_with("  epochs: 2\n", "")),
              ElementsAre(HasSubstr("a.yaml:6:1: train: the length of training is missing")));
  EXPECT_THAT(problems_with({"train.epochs=0"}),
              ElementsAre(HasSubstr("train.epochs: expected none or an integer of at least 1, got \"0\"")));
  EXPECT_THAT(problems_with({"train.max_steps=0"}),
              ElementsAre(HasSubstr("train.max_steps: expected none or an integer of at least 1")));
}

TEST(C09, WarmUpMustFit) {
  EXPECT_THAT(problems_with({"train.max_steps=10", "schedule.warmup=50 steps"}),
              ElementsAre(HasSubstr("--set: schedule.warmup: 50 steps does not end before the whole training "
                                    "(train.max_steps is 10)")));
  EXPECT_THAT(problems_with({"schedule.warmup=3 epochs"}),
              ElementsAre(HasSubstr("does not end before the whole training (train.epochs is 2)")));
  EXPECT_THAT(problems_with({"schedule.warmup=2 epochs"}), ElementsAre(HasSubstr("(train.epochs is 2)")));
  EXPECT_THAT(problems_with({"schedule.warmup=1 epoch"}), IsEmpty());
  EXPECT_THAT(problems_with({"schedule.warmup=0 steps", "train.max_steps=1"}), IsEmpty());
  EXPECT_THAT(problems_with({"schedule.warmup=50 steps"}), IsEmpty());  // steps of an epoch are not known here
}

TEST(C09, LengthsOfTheScheduleMustFit) {
  EXPECT_THAT(problems_with({"schedule={name: step, every: 3 epochs}"}),
              ElementsAre(HasSubstr("schedule.every: 3 epochs is longer than the whole training (train.epochs is 2)")));
  EXPECT_THAT(problems_with({"schedule={name: multistep, milestones: [1 epoch, 3 epochs, 4 epochs]}"}),
              ElementsAre(HasSubstr("schedule.milestones: 3 epochs is longer"), HasSubstr("4 epochs is longer")));
  EXPECT_THAT(
      problems_with({"schedule={name: wsd, decay: 20 steps}", "train.max_steps=10"}),
      ElementsAre(HasSubstr("schedule.decay: 20 steps is longer than the whole training (train.max_steps is 10)")));
  EXPECT_THAT(problems_with({"schedule={name: cosine_restarts, first: 3 epochs}"}),
              ElementsAre(HasSubstr("schedule.first: 3 epochs is longer")));
  EXPECT_THAT(problems_with({"schedule={name: wsd, decay: 100%, warmup: 5%}"}), IsEmpty());
}

TEST(Checks, OneCycleHasItsOwnWarmUp) {
  EXPECT_THAT(problems_with({"schedule={name: one_cycle, warmup: 1 epoch}"}),
              ElementsAre(HasSubstr("schedule.warmup: one_cycle rises by itself")));
  EXPECT_THAT(problems_with({"schedule={name: one_cycle, shape: linear}"}), IsEmpty());
}

TEST(Checks, Evaluation) {
  EXPECT_THAT(problems_with({"evaluate.every=1 epoch"}),
              ElementsAre(HasSubstr("evaluate.every: there is nothing to evaluate on")));
  EXPECT_THAT(problems_with({"evaluate.every=never"}), IsEmpty());
  EXPECT_THAT(problems_with({"checkpoint.keep_best=accuracy"}),
              ElementsAre(HasSubstr("the best accuracy is never known: data.val is missing")));
  const std::string val = "data.val={format: synthetic, samples: 9, shape: [784], num_classes: 10}";
  EXPECT_THAT(problems_with({"checkpoint.keep_best=loss", val}), IsEmpty());
  EXPECT_THAT(problems_with({"checkpoint.keep_best=loss", val, "evaluate.every=never"}),
              ElementsAre(HasSubstr("evaluate.every is never")));
  EXPECT_THAT(problems_with({"checkpoint.keep_best=f1", val}),
              ElementsAre(HasSubstr(
                  "checkpoint.keep_best: expected one of accuracy, top_k_accuracy, loss, perplexity, miou, dice, "
                  "mae, rmse, none, got \"f1\"")));
  EXPECT_THAT(problems_with({"checkpoint.keep_last=0"}),
              ElementsAre(HasSubstr("checkpoint.keep_last: expected an integer of at least 1")));
}

TEST(Checks, OutputIsTakenAsItStands) {
  EXPECT_THAT(problems_with({"output=~/x"}),
              ElementsAre(HasSubstr("output: ~ is not expanded in a spec, got \"~/x\"")));
  EXPECT_THAT(problems_with({"output=~"}), ElementsAre(HasSubstr("~ is not expanded")));
  EXPECT_THAT(problems_with({"output=./~/x"}), IsEmpty());
  EXPECT_THAT(problems_with({"output=a~b"}), IsEmpty());
  for (const std::string root : {"/", "//", "/.", "/a/.."}) {
    EXPECT_THAT(problems_with({"output=" + root}), ElementsAre(HasSubstr("output: the root directory"))) << root;
  }
}

TEST(Checks, Hosts) {
  EXPECT_THAT(
      problems_with({"launch.hosts=[local, user@gpu-1:8]"}),
      ElementsAre(HasSubstr(
          "launch.hosts[1]: \"user@gpu-1:8\": hosts over ssh and host files are not supported yet by this version")));
  EXPECT_THAT(problems_with({"launch.hosts=[{file: hosts.txt}]"}),
              ElementsAre(HasSubstr("\"{file: hosts.txt}\": hosts over ssh and host files")));
  for (const std::string host : {"local:0", "'local:'", "local:x", "local:5000", "local:02"}) {
    EXPECT_THAT(problems_with({"launch.hosts=[" + host + "]"}),
                ElementsAre(HasSubstr("expected local:N with N from 1 to 4096")))
        << host;
  }
  EXPECT_THAT(problems_with({"launch.hosts=[]"}), ElementsAre(HasSubstr("expected a list of hosts, got an empty one")));
  EXPECT_THAT(problems_with({"launch.hosts=[[local]]"}),
              ElementsAre(HasSubstr("launch.hosts[0]: expected local, local:N")));
}

TEST(Checks, Optimizer) {
  EXPECT_THAT(problems_with({"optimizer={name: sgd, lr: 1, nesterov: true}"}),
              ElementsAre(HasSubstr("optimizer.nesterov: needs a momentum above 0")));
  EXPECT_THAT(problems_with({"optimizer={name: sgd, lr: 1, nesterov: true, momentum: 0.9}"}), IsEmpty());
}

std::string raw(const std::string& inputs, const std::string& targets) {
  return "data.train={format: raw, inputs: {path: a, " + inputs + "}, targets: {path: b, " + targets + "}}";
}
constexpr const char* kLabels = "shape: [], dtype: int64";

TEST(Checks, RawArrays) {
  EXPECT_THAT(problems_with({raw("shape: [784], dtype: float32", kLabels)}), IsEmpty());
  EXPECT_THAT(
      problems_with({raw("shape: [784], dtype: float33", kLabels)}),
      ElementsAre(HasSubstr(
          "data.train.inputs.dtype: expected one of uint8, int8, int16, int32, int64, bfloat16, float16, float32, "
          "float64, got \"float33\"\nhint: did you mean float32?")));
  EXPECT_THAT(problems_with({raw("dtype: float32", kLabels)}),
              ElementsAre(HasSubstr("data.train.inputs.shape: missing")));
  EXPECT_THAT(problems_with({raw("shape: [0], dtype: float32", kLabels)}),
              ElementsAre(HasSubstr("data.train.inputs.shape: expected an integer of at least 1")));
  EXPECT_THAT(problems_with({raw("shape: [], dtype: float32", kLabels)}),
              ElementsAre(HasSubstr("model.args.in_features: 784, but a sample of data.train has 1 element"),
                          HasSubstr("inputs.shape: expected at least one dimension")));
  EXPECT_THAT(
      problems_with({raw("shape: [4294967296, 4294967296], dtype: uint8", kLabels), "data.transforms.train=[]"}),
      testing::Contains(HasSubstr("a sample of [4294967296, 4294967296] is too large")));
  EXPECT_THAT(problems_with({raw("shape: [784], dtype: float32, ofset: 3", kLabels)}),
              ElementsAre(HasSubstr("data.train.inputs.ofset: unknown key: an array has path, shape, dtype and "
                                    "offset\nhint: did you mean offset?")));
  EXPECT_THAT(problems_with({raw("shape: [784], dtype: float32, offset: -1", kLabels)}),
              ElementsAre(HasSubstr("offset: expected an integer of at least 0")));
  EXPECT_THAT(problems_with({raw("shape: [784], dtype: float32", "shape: [2], dtype: float32")}),
              ElementsAre(HasSubstr("data.train.targets.shape: class labels have the shape [], got [2]"),
                          HasSubstr("data.train.targets.dtype: class labels are integers, got float32")));
  EXPECT_THAT(problems_with({"data.train={format: raw, inputs: a.bin, targets: b.bin}"}),
              ElementsAre(HasSubstr("data.train.inputs: expected {path: ..., shape: [...], dtype: ...}, got \"a.bin\""),
                          HasSubstr("data.train.targets")));
}

TEST(Checks, ModelAgainstData) {
  EXPECT_THAT(
      problems_with({"model.args.in_features=100"}),
      ElementsAre(HasSubstr("--set: model.args.in_features: 100, but a sample of data.train has 784 elements")));
  EXPECT_THAT(problems_with({"model={name: small_cnn, args: {in_channels: 3}}"}),
              ElementsAre(HasSubstr("model.args.in_channels: 3, but data.train has 1 channel")));
  EXPECT_THAT(problems_with({"model={name: small_cnn}", "data.train.shape=[1, 32, 32]"}),
              ElementsAre(HasSubstr("small_cnn takes 28x28 images, but a sample of data.train is [1, 32, 32]")));
  EXPECT_THAT(problems_with({"model={name: small_cnn}", "data.train.shape=[1, 32, 32]",
                             "data.transforms.train=[{random_crop: {size: 28}}]"}),
              IsEmpty());
  EXPECT_THAT(problems_with({"data.train.num_classes=11"}),
              ElementsAre(HasSubstr("data.train.num_classes: the model has only 10 outputs")));
  EXPECT_THAT(problems_with({"data.val={format: synthetic, samples: 9, shape: [100], num_classes: 10}"}),
              ElementsAre(HasSubstr("model.args.in_features: 784, but a sample of data.val has 100 elements")));
}

TEST(Checks, TransformsAgainstData) {
  const std::string idx = "data.train={format: idx, images: a, labels: b}";
  EXPECT_THAT(problems_with({idx}),
              ElementsAre(HasSubstr("data.transforms.train: the samples are 8-bit pixels and the model takes floats")));
  EXPECT_THAT(problems_with({idx, "data.transforms.train=[to_tensor]"}), IsEmpty());
  EXPECT_THAT(problems_with({idx, "data.transforms.train=[{normalize: {mean: [0], std: [1]}}, to_tensor]"}),
              ElementsAre(HasSubstr("data.transforms.train[0].normalize: normalize needs floats, not 8-bit pixels")));
  EXPECT_THAT(problems_with({idx, "data.transforms.train=[to_tensor, to_tensor]"}),
              ElementsAre(HasSubstr(
                  "data.transforms.train[1]: to_tensor turns 8-bit pixels into floats, but a sample is float32 here")));
  EXPECT_THAT(problems_with({idx, "data.transforms.train=[to_tensor, {normalize: {mean: [0, 0], std: [1, 1, 1]}}]"}),
              ElementsAre(HasSubstr("mean has 2 numbers, std has 3")));
  EXPECT_THAT(problems_with({idx, "data.transforms.train=[to_tensor, {normalize: {mean: [0, 0, 0], std: [1, 1, 1]}}]"}),
              ElementsAre(HasSubstr("mean and std have 3 numbers, a sample has 1 channel")));
  EXPECT_THAT(
      problems_with({"data.transforms.train=[{random_crop: {size: 40, padding: 5}}]", "model.args.in_features=1600"}),
      ElementsAre(HasSubstr("random_crop.size: a crop of 40 does not fit into [1, 28, 28] with padding 5")));
  EXPECT_THAT(
      problems_with({"data.train.shape=[784]", "data.transforms.train=[random_horizontal_flip]"}),
      ElementsAre(HasSubstr("random_horizontal_flip needs images [channels, height, width], but a sample is [784]")));
  EXPECT_THAT(problems_with({"data.transforms.train=[{normalize: {mean: [0], std: [1]}}, {random_crop: {size: 28}}]"}),
              ElementsAre(HasSubstr("random_crop after normalize would pad with grey")));
}

TEST(Checks, ExactlyOneModel) {
  EXPECT_THAT(
      problems_with({"model.torchscript=m.pt"}),
      ElementsAre(HasSubstr("model.torchscript: only one of model.name and model.torchscript can be the model")));
  EXPECT_THAT(problems_with({"model={torchscript: m.pt, args: {width: 3}}",
                             "data.train={format: raw, inputs: {path: a, "
                             "shape: [3], dtype: float32}, targets: {path: b, shape: [], dtype: int64}}"}),
              ElementsAre(HasSubstr("model.args: a TorchScript file has its arguments in it")));
  const auto data =
      "data.train={format: raw, inputs: {path: a, shape: [3], dtype: float32}, targets: {path: b, shape: "
      "[], dtype: int64}}";
  const Spec spec =
      parse_with({"model={plugin: libm.so, args: {width: 3, rate: 0.5, deep: true, list: [1, 2], word: \"1\"}}", data});
  const RunPlan plan = resolve(spec, {.cwd = "/w"}, nullptr);
  EXPECT_EQ(plan.model.plugin, "/w/libm.so");
  EXPECT_EQ(plan.model.args.dump(), R"({"deep":true,"list":[1,2],"rate":0.5,"width":3,"word":"1"})");
  EXPECT_EQ(resolve(parse_spec({to_yaml(spec), "spec.yaml", {}}), {.cwd = "/w"}, nullptr).model.args, plan.model.args);
}

TEST(Checks, TasksTakeTheirModelsOptionsAndMetrics) {
  const std::string val = "data.val={format: synthetic, samples: 10, shape: [784], num_classes: 10}";
  EXPECT_THAT(problems_with({"task=regression", "data.train.targets=values", "data.mixup=0.2"}),
              ElementsAre(HasSubstr("data.mixup: mixes class labels")));
  EXPECT_THAT(problems_with({"loss.dice_weight=0.5"}),
              ElementsAre(HasSubstr("loss.dice_weight: has no meaning for classification")));
  EXPECT_THAT(problems_with({"loss.distance=l1"}), ElementsAre(HasSubstr("loss.distance: has no meaning")));
  EXPECT_THAT(problems_with({"loss.ignore_index=3"}), ElementsAre(HasSubstr("loss.ignore_index: has no meaning")));
  EXPECT_THAT(problems_with({"evaluate.top_k=10", val}),
              ElementsAre(HasSubstr("always among the 10 largest of 10 classes")));
  EXPECT_THAT(problems_with({"train.ema_decay=1"}),
              ElementsAre(HasSubstr("train.ema_decay: expected none or a number above 0 to below 1, got \"1\"")));
  EXPECT_THAT(problems_with({val, "checkpoint.keep_best=miou"}),
              ElementsAre(AllOf(HasSubstr("miou is not a metric of classification"), HasSubstr("accuracy"))));
  EXPECT_THAT(problems_with({val, "early_stopping.metric=top_k_accuracy"}),
              ElementsAre(HasSubstr("needs evaluate.top_k")));
  EXPECT_THAT(problems_with({"early_stopping.metric=loss"}),
              ElementsAre(HasSubstr("never measured: data.val is missing")));
  EXPECT_THAT(problems_with({"log.profile=[5, 3]"}), ElementsAre(HasSubstr("the first step comes after the last")));
}

TEST(Checks, WhatASwitchThatIsOffMakesIdleIsAMistake) {
  EXPECT_THAT(problems_with({"model.init_ignore=[fc.*]"}),
              ElementsAre(HasSubstr("model.init_ignore: has no effect without model.init")));
  EXPECT_THAT(problems_with({"early_stopping.patience=3"}),
              ElementsAre(HasSubstr("has no effect without early_stopping.metric")));
  EXPECT_THAT(problems_with({"evaluate.top_k=3"}),
              ElementsAre(HasSubstr("evaluate.top_k: has no effect without data.val")));
}

// A plug-in's arguments mean what it says: none is held against the data or another model's rules.
TEST(Checks, APluginsArgumentsAreItsOwn) {
  const auto data =
      "data.train={format: raw, inputs: {path: a, shape: [3], dtype: float32}, targets: {path: b, shape: "
      "[], dtype: int64}}";
  EXPECT_THAT(
      problems_with({"model={plugin: libm.so, args: {size: custom, layers: 1, width: 8, heads: 0, in_features: 9, "
                     "num_classes: 1, context: 2}}",
                     data}),
      IsEmpty());
}

TEST(Checks, MixingNeedsImagesAndCompany) {
  const std::string flat = "data.train={format: synthetic, samples: 10, shape: [784], num_classes: 10}";
  EXPECT_THAT(problems_with({flat, "data.cutmix=1"}), ElementsAre(HasSubstr("data.cutmix: needs images")));
  EXPECT_THAT(problems_with({"data.cutmix=1"}), IsEmpty());
  const Spec spec = parse_with({"data.mixup=0.2", "train.micro_batch=1"});
  const auto errors = errors_of([&] { resolve(spec, {}, nullptr); });
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_THAT(errors[0].message, HasSubstr("a micro-batch is one sample"));
}

TEST(Checks, RulesOfParameters) {
  EXPECT_THAT(problems_with({"optimizer.lr_scales=[1]"}), ElementsAre(HasSubstr("expected {PATTERN: number, ...}")));
  EXPECT_THAT(problems_with({"optimizer.lr_scales={fc1.*: -1}"}),
              ElementsAre(HasSubstr("optimizer.lr_scales.fc1.*: expected a number above 0")));
  const Spec spec =
      parse_with({"optimizer.lr_scales={\"*.bias\": 2, fc1.*: 0.5}", "optimizer.decay_norm_and_bias=false"});
  const RunPlan plan = resolve(spec, {}, nullptr);
  EXPECT_FALSE(plan.parameters.decay_norm_and_bias);
  ASSERT_EQ(plan.parameters.lr_scales.size(), 2u);
  EXPECT_EQ(plan.parameters.lr_scales[0], (ParameterRules::LrScale{"*.bias", 2}));
  EXPECT_EQ(resolve(parse_spec({to_yaml(spec), "spec.yaml", {}}), {}, nullptr).parameters.lr_scales,
            plan.parameters.lr_scales);
}

}  // namespace
}  // namespace gputrain
