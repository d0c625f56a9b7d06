// Keys: duplicate, misspelt, misplaced, missing. Field cases C03 and C04.
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(C03, TheSameKeyTwiceNamesBothLines) {
  EXPECT_THAT(
      problems(good_with("  global_batch: 16\n", "  global_batch: 16\n  clip_grad_norm: 1\n  global_batch: 64\n")),
      ElementsAre(
          HasSubstr("a.yaml:10:3: train.global_batch: the key is given twice: first on line 8, again on line 10")));
  EXPECT_THAT(problems(std::string(kGood) + std::string(40, '\n') + "optimizer: {name: sgd, lr: 1}\n"),
              ElementsAre(HasSubstr("optimizer: the key is given twice: first on line 9, again on line 52")));
  EXPECT_THAT(problems(good_with("  lr: 1e-3\n", "  lr: 1e-3\n  \"lr\": 2e-3\n")),
              ElementsAre(HasSubstr("optimizer.lr: the key is given twice: first on line 11, again on line 12")));
  EXPECT_THAT(problems(good_with("{hidden: [32]}", "{hidden: [32], hidden: [64]}")),
              ElementsAre(HasSubstr("model.args.hidden: the key is given twice: first on line 3, again on line 3")));
}

TEST(C03, AlsoInsideLists) {
  const std::string transforms = "  transforms: {train: [{normalize: {mean: [1], mean: [2], std: [1]}}]}\n";
  EXPECT_THAT(problems(good_with("train:\n  epochs", transforms + "train:\n  epochs")),
              ElementsAre(HasSubstr("data.transforms.train.normalize.mean: the key is given twice")));
}

TEST(C04, UnknownKeysAreListedAtOnceWithTheNearestName) {
  const auto found =
      problems(good_with("train:\n  epochs: 2", "lr: 3\ntrain:\n  num-epochs: 2\n  epochs: 2\n  Global_Batch: 5") +
               "  learning_rat: 3\nfoo: {bar: 1}\nOptimizer: 3\nevaluation: {every: 1 epoch}\n");
  EXPECT_THAT(
      found,
      ElementsAre(
          AllOf(HasSubstr("a.yaml:6:1: lr: unknown key"), HasSubstr("did you mean optimizer.lr?")),
          AllOf(HasSubstr("a.yaml:8:3: train.num-epochs: unknown key"), HasSubstr("did you mean train.epochs?")),
          AllOf(HasSubstr("train.Global_Batch: unknown key"), HasSubstr("did you mean train.global_batch?")),
          HasSubstr("optimizer.learning_rat: unknown argument: optimizer adamw takes lr, weight_decay, betas and eps"),
          AllOf(HasSubstr("foo: unknown key"), HasSubstr("gputrain explain lists all keys")),
          AllOf(HasSubstr("Optimizer: unknown key"), HasSubstr("did you mean optimizer?")),
          AllOf(HasSubstr("evaluation: unknown key"), HasSubstr("did you mean evaluate?"))));
}

TEST(C04, AMisspeltKeyIsShownExactly) {
  EXPECT_EQ(problems(std::string(kGood) + "evalute: {every: never}\n").at(0),
            "a.yaml:12:1: evalute: unknown key\n"
            "   12 | evalute: {every: never}\n"
            "      | ^\n"
            "hint: did you mean evaluate?");
}

TEST(C04, NamesOfOtherToolsAndFlatKeysAreUnderstood) {
  EXPECT_THAT(problems(std::string(kGood) + "batch_size: 3\n"),
              ElementsAre(HasSubstr("did you mean train.global_batch?")));
  EXPECT_THAT(problems(std::string(kGood) + "learning_rate: 3\n"),
              ElementsAre(HasSubstr("did you mean optimizer.lr?")));
  EXPECT_THAT(problems(std::string(kGood) + "every: 1 epoch\n"),
              ElementsAre(HasSubstr("did you mean evaluate.every, checkpoint.every, log.every or schedule.every?")));
  EXPECT_THAT(problems(std::string(kGood) + "train.max_steps: 3\n"),
              ElementsAre(HasSubstr("keys are nested: write train:")));
}

TEST(C04, AScalarWhereAMapIsExpected) {
  EXPECT_THAT(problems(std::string(kGood) + "checkpoint: 10m\n"),
              ElementsAre(HasSubstr("a.yaml:12:13: checkpoint: expected keys with values, got \"10m\"")));
  EXPECT_THAT(problems(good_with("model: {name: mlp, args: {hidden: [32]}}", "model: mlp")),
              ElementsAre(HasSubstr("model: expected keys with values, got \"mlp\"")));
  EXPECT_THAT(problems(std::string(kGood) + "log:\n"),
              ElementsAre(HasSubstr("log: expected keys with values, got nothing")));
  EXPECT_THAT(problems(good_with("args: {hidden: [32]}", "args: 3")),
              ElementsAre(HasSubstr("model.args: expected a map of arguments, got \"3\"")));
}

TEST(C04, RequiredKeysAreReportedAtTheirSection) {
  EXPECT_THAT(
      problems("seed: 1\ntrain: {epochs: 1}\n"),
      ElementsAre(
          HasSubstr("a.yaml: name: missing: expected a word"),
          HasSubstr("a.yaml: data.train: missing: expected {format: idx, raw, tokens or synthetic, ...}"),
          HasSubstr("a.yaml: optimizer.lr: missing: optimizer adamw needs a number above 0"),
          HasSubstr("a.yaml: model.name: missing: expected one of mlp, small_cnn, resnet18, resnet34, resnet50"),
          HasSubstr("a.yaml:2:1: train.global_batch: missing: expected an integer of at least 1")));
}

TEST(C04, NotesAreAccepted) {
  EXPECT_THAT(problems(std::string(kGood) + "x-owner: me\nx-more: {any: [thing, {a: null}]}\n"), IsEmpty());
  EXPECT_THAT(problems(good_with("  epochs: 2", "  x-note: 1\n  epochs: 2")),
              ElementsAre(HasSubstr("train.x-note: unknown key")));
}

TEST(Catalog, UnknownNamesAndArguments) {
  EXPECT_THAT(problems(good_with("name: mlp, args: {hidden: [32]}", "name: resnet5")),
              ElementsAre(AllOf(HasSubstr("a.yaml:3:15: model.name"), HasSubstr("did you mean resnet50?"))));
  EXPECT_THAT(
      problems(good_with("args: {hidden: [32]}", "args: {hiden: [32]}")),
      ElementsAre(AllOf(
          HasSubstr("model.args.hiden: unknown argument: model mlp takes in_features, hidden, num_classes and dropout"),
          HasSubstr("did you mean hidden?"))));
  EXPECT_THAT(problems(good_with("format: synthetic", "format: csv")),
              ElementsAre(HasSubstr("data.train.format: expected one of idx, raw, tokens, synthetic, got \"csv\"")));
  EXPECT_THAT(
      problems(good_with("samples: 100", "sampels: 100")),
      ElementsAre(HasSubstr("data.train.samples: missing: format synthetic needs an integer of at least 1"),
                  AllOf(HasSubstr("data.train.sampels: unknown argument"), HasSubstr("did you mean samples?"))));
  EXPECT_THAT(problems(std::string(kGood) + "schedule: {name: constant, final_factor: 0.1}\n"),
              ElementsAre(HasSubstr("schedule.final_factor: unknown argument: schedule constant takes none")));
  EXPECT_THAT(problems(std::string(kGood) + "task: segmentatoin\n"),
              ElementsAre(AllOf(HasSubstr("task: expected one of classification, language_model, segmentation, "
                                          "regression, got \"segmentatoin\""),
                                HasSubstr("did you mean segmentation?"))));
}

TEST(Catalog, Transforms) {
  auto with = [](const std::string& list) {
    return good_with("train:\n  epochs", "  transforms: {train: " + list + "}\ntrain:\n  epochs");
  };
  EXPECT_THAT(problems(with("[random_flip]")),
              ElementsAre(HasSubstr("a.yaml:6:24: data.transforms.train[0]: unknown transform \"random_flip\"")));
  EXPECT_THAT(problems(with("to_tensor")), ElementsAre(HasSubstr("expected a list of transforms, got \"to_tensor\"")));
  EXPECT_THAT(
      problems(with("[normalize]")),
      ElementsAre(
          HasSubstr("data.transforms.train[0].normalize.mean: missing: transform normalize needs a list of numbers"),
          HasSubstr("data.transforms.train[0].normalize.std: missing")));
  EXPECT_THAT(problems(with("[{normalize: {mean: [0], std: [0]}}]")),
              ElementsAre(HasSubstr(
                  "a.yaml:6:54: data.transforms.train[0].normalize.std: expected a number above 0, got \"0\"")));
  EXPECT_THAT(problems(with("[{random_horizontal_flip: {p: 1.5}}]")),
              ElementsAre(HasSubstr("expected a number from 0 to 1, got \"1.5\"")));
  EXPECT_THAT(problems(with("[{random_horizontal_flip: , normalize: {mean: [0], std: [1]}}]")),
              ElementsAre(HasSubstr("one transform for each element of the list")));
  EXPECT_THAT(problems(with("[{random_horizontal_flip: }]")), IsEmpty());
  EXPECT_THAT(problems(with("[{random_horizontal_flip: 3}]")),
              ElementsAre(HasSubstr("expected a map of arguments, got \"3\"")));
  const Spec spec = parse(with("[random_horizontal_flip, {random_crop: {size: 28}}]"));
  EXPECT_EQ(
      spec.at("data.transforms.train").dump(),
      R"([{"name":"random_horizontal_flip","args":{"p":0.5}},{"name":"random_crop","args":{"size":28,"padding":0}}])");
}

TEST(Keys, ErrorsComeInFileOrderWithTheirCode) {
  const auto errors = errors_of([] { parse(good_with("seed: 7", "seed: x") + "foo: 1\n" + "bar: 2\n"); });
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].where, "a.yaml:2:7");
  EXPECT_EQ(errors[1].where, "a.yaml:12:1");
  EXPECT_EQ(errors[2].where, "a.yaml:13:1");
  for (const auto& error : errors) EXPECT_EQ(exit_code(error.kind), ExitCode::kSpec);
}

}  // namespace
}  // namespace gputrain
