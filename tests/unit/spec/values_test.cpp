// Numbers and words as people write them: field cases C01, C02 and C06.
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string with_lr(const std::string& text) {
  return good_with("lr: 1e-3", "lr: " + text);
}

TEST(C01, EverySpellingOfALearningRateIsTheNumber) {
  for (const std::string text :
       {"1e-4", "1E-4", "1.e-4", ".0001", "+1e-4", "\"1e-4\"", "'1e-4'", "1e-4 # c", "0.0001"}) {
    EXPECT_EQ(parse(with_lr(text)).at("optimizer.lr").get<double>(), 1e-4) << text;
  }
  for (const std::string text : {"1e-4", "1E-4", "1.e-4", ".0001", "+1e-4", "\"1e-4\""}) {
    EXPECT_EQ(parse_with({"optimizer.lr=" + text}).at("optimizer.lr").get<double>(), 1e-4) << text;
  }
}

TEST(C01, OtherArgumentsReadTheSameWay) {
  const Spec spec = parse(with_lr("1e-3\n  weight_decay: 1e-4\n  eps: 1E-10\n  betas: [9e-1, \"0.99\"]"));
  EXPECT_EQ(spec.at("optimizer.weight_decay").get<double>(), 1e-4);
  EXPECT_EQ(spec.at("optimizer.eps").get<double>(), 1e-10);
  EXPECT_EQ(spec.at("optimizer.betas"), Json::array({0.9, 0.99}));
}

TEST(C01, UnderflowTextAndNanAreRefusedByKeyLineAndValue) {
  for (const std::string text :
       {"1e-400", "fast", "nan", ".nan", ".inf", "1e400", "0", "-1e-3", "1,5", "0x1p-3", "1e-4x"}) {
    EXPECT_THAT(problems(with_lr(text)),
                ElementsAre(HasSubstr("a.yaml:11:7: optimizer.lr: expected a number above 0, got \"" + text + "\"")))
        << text;
  }
}

TEST(C01, TheErrorShowsTheLine) {
  EXPECT_EQ(problems(with_lr("fast")).at(0),
            "a.yaml:11:7: optimizer.lr: expected a number above 0, got \"fast\"\n"
            "   11 |   lr: fast\n"
            "      |       ^\n"
            "hint: gputrain explain optimizer.lr");
}

std::string with_train(const std::string& line) {
  return good_with("  epochs: 2\n", "  epochs: 2\n  " + line + "\n");
}

TEST(C02, NoMixedPrecisionIsWrittenFp32) {
  for (const std::string text : {"no", "off", "NO", "false", "\"no\"", "n", "0"}) {
    EXPECT_THAT(
        problems(with_train("precision: " + text)),
        ElementsAre(::testing::AllOf(HasSubstr("train.precision: expected one of fp64, fp32, tf32, bf16, fp16, got"),
                                     HasSubstr("hint: write fp32 for no mixed precision"))))
        << text;
  }
  EXPECT_THAT(problems(with_train("precision: bf61")), ElementsAre(HasSubstr("hint: did you mean bf16?")));
}

TEST(C02, OnlyTrueAndFalseAreBooleans) {
  EXPECT_EQ(parse(with_train("deterministic: true")).at("train.deterministic"), true);
  EXPECT_EQ(parse(with_train("deterministic: False")).at("train.deterministic"), false);
  for (const std::string text : {"0", "1", "no", "yes", "on", "n", "\"false\"", "'true'", ""}) {
    EXPECT_THAT(problems(with_train("deterministic: " + text)),
                ElementsAre(HasSubstr("train.deterministic: expected true or false, got")))
        << text;
  }
}

TEST(C02, NamesStayText) {
  for (const std::string name : {"no", "on", "y", "008", "1e6", "true", "12:00:00"}) {
    EXPECT_EQ(parse(good_with("name: demo", "name: " + name)).at("name"), name);
  }
  EXPECT_THAT(problems(good_with("name: demo", "name: demo\nlaunch: {hosts: [y]}")),
              ElementsAre(HasSubstr("\"y\": hosts over ssh")));
}

TEST(C06, IntegersAreDecimal) {
  for (const std::string text : {"0010", "08", "1e6", "1_000", "100.0", "100.5", "1:30", "0x10", "64k",
                                 "99999999999999999999", "ten", "-1", "1 000", "٣"}) {
    EXPECT_THAT(problems(with_train("max_steps: " + text)),
                ElementsAre(HasSubstr(
                    "a.yaml:8:14: train.max_steps: expected none or an integer of at least 1, got \"" + text + "\"")))
        << text;
  }
  EXPECT_THAT(problems(with_train("max_steps: 0010")), ElementsAre(HasSubstr("no leading zero")));
  EXPECT_THAT(problems(with_train("max_steps: 99999999999999999999")),
              ElementsAre(HasSubstr("does not fit in 64 bits")));
  EXPECT_THAT(problems(good_with("seed: 7", "seed: -1")),
              ElementsAre(HasSubstr("a.yaml:2:7: seed: expected an integer of at least 0")));
}

TEST(C06, LargeIntegersAreNotCut) {
  EXPECT_EQ(parse(with_train("max_steps: 3000000000")).at("train.max_steps").get<int64_t>(), 3000000000);
  EXPECT_EQ(parse(good_with("seed: 7", "seed: 9223372036854775807")).at("seed").get<int64_t>(), INT64_MAX);
  EXPECT_THAT(problems(good_with("name: demo", "name: demo\nlaunch: {nproc_per_node: 3000000000}")),
              ElementsAre(HasSubstr("launch.nproc_per_node: expected auto or an integer from 1 to 4096")));
}

TEST(C06, TimesNeedUnits) {
  const std::string base = std::string(kGood);
  EXPECT_THAT(problems(base + "checkpoint: {every: 12:00:00}\n"),
              ElementsAre(HasSubstr("checkpoint.every: expected 500 steps, 1 epoch, 10m or never, got \"12:00:00\"")));
  EXPECT_THAT(problems(base + "checkpoint: {every: 10}\n"),
              ElementsAre(HasSubstr("a unit is needed: 10s, 10m, 10 steps")));
  EXPECT_THAT(problems(base + "checkpoint: {every: 0 steps}\n"), ElementsAre(HasSubstr("write never")));
  EXPECT_THAT(problems(base + "launch: {grace: 30}\n"), ElementsAre(HasSubstr("a unit is needed: 30s")));
  EXPECT_THAT(problems(base + "evaluate: {every: 5%}\n"), ElementsAre(HasSubstr("evaluate.every: expected")));
  EXPECT_THAT(problems(base + "schedule: {name: step, every: 0 steps}\n"),
              ElementsAre(HasSubstr("schedule.every: expected a length such as 500 steps, 1 epoch or 5%")));
  EXPECT_THAT(problems(base + "schedule: {name: multistep, milestones: [30]}\n"),
              ElementsAre(AllOf(HasSubstr("expected a length"), HasSubstr("30 steps or 30 epochs"))));
  EXPECT_THAT(problems(base + "schedule: {name: wsd, decay: 10%, shape: lineer}\n"),
              ElementsAre(HasSubstr("did you mean linear?")));
  EXPECT_THAT(problems(base + "launch: {grace: 0s}\n"), ElementsAre(HasSubstr("expected a duration above 0s")));
  EXPECT_THAT(problems(base + "launch: {lease: 499ms}\n"),
              ElementsAre(HasSubstr("expected a duration of at least 500ms")));
  EXPECT_THAT(problems(base + "schedule: {warmup: 5}\n"),
              ElementsAre(HasSubstr("a unit is needed: 5 steps or 5 epochs")));
  for (const std::string every : {"500 steps", "1 epoch", "10m", "1.5h", "never", "\"10m\""}) {
    EXPECT_THAT(problems(base + "checkpoint: {every: " + every + "}\n"), SizeIs(0)) << every;
  }
}

TEST(Values, ListsCountAndCheckTheirElements) {
  EXPECT_THAT(problems(with_lr("1e-3\n  betas: [0.9]")),
              ElementsAre(HasSubstr("expected a list of 2 numbers from 0 to below 1, got 1 element")));
  EXPECT_THAT(
      problems(with_lr("1e-3\n  betas: [0.9, 1.0]")),
      ElementsAre(HasSubstr("a.yaml:12:16: optimizer.betas: expected a number from 0 to below 1, got \"1.0\"")));
  EXPECT_THAT(problems(with_lr("1e-3\n  betas: 0.9")), ElementsAre(HasSubstr("got \"0.9\"")));
  EXPECT_THAT(problems(good_with("hidden: [32]", "hidden: []")), ElementsAre(HasSubstr("model.args.hidden")));
  EXPECT_THAT(problems(good_with("hidden: [32]", "hidden: [32, 1.5]")),
              ElementsAre(HasSubstr("expected an integer of at least 1, got \"1.5\"")));
}

TEST(Values, TextHasNoControlCharactersAndIsNotEmpty) {
  EXPECT_THAT(problems(good_with("name: demo", "name: \"a\\nb\"")),
              ElementsAre(HasSubstr("without control characters")));
  EXPECT_THAT(problems(good_with("name: demo", "name: \"\"")),
              ElementsAre(HasSubstr("name: expected a word, got \"\"")));
  EXPECT_THAT(problems(good_with("name: demo", "name:")), ElementsAre(HasSubstr("name: expected a word, got nothing")));
  EXPECT_THAT(problems(good_with("name: demo", "name: a/b")), ElementsAre(HasSubstr("without slashes")));
  EXPECT_THAT(problems(good_with("name: demo", "name: [a]")), ElementsAre(HasSubstr("expected a word, got a list")));
  EXPECT_THAT(problems(good_with("name: demo", "name: " + std::string(300, 'x'))),
              ElementsAre(HasSubstr("at most 200 bytes, got 300")));
}

}  // namespace
}  // namespace gputrain
