// Values given outside the file: --set, flags, the environment.
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseSet, SplitsAtTheFirstEqualsSign) {
  const Override item = parse_set(" train.epochs =a=b");
  EXPECT_EQ(item.key, "train.epochs");
  EXPECT_EQ(item.value, "a=b");
  for (const std::string bad : {"train.epochs", "=3", "", " = 3"}) {
    try {
      parse_set(bad);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kUsage);
      EXPECT_EQ(error.where, "--set");
    }
  }
}

TEST(Overrides, ReplaceValuesOfTheFile) {
  const Spec spec = parse_with({"train.epochs=9", "optimizer.lr=2e-3", "model.args.hidden=[8, 8]", "name=no"});
  EXPECT_EQ(spec.at("train.epochs"), 9);
  EXPECT_EQ(spec.at("optimizer.lr").get<double>(), 2e-3);
  EXPECT_EQ(spec.at("model.args.hidden"), Json::array({8, 8}));
  EXPECT_EQ(spec.at("name"), "no");
  EXPECT_EQ(spec.find("train.epochs")->origin.place(), "--set");
  EXPECT_EQ(spec.find("train.global_batch")->origin.place(), "a.yaml:8:17");
}

TEST(Overrides, AddWhatTheFileLacks) {
  const Spec spec = parse_with({"checkpoint.every=500 steps", "launch.hosts=[local, local]",
                                "data.val={format: idx, images: a, labels: b}", "data.transforms.val=[to_tensor]"});
  EXPECT_EQ(spec.at("checkpoint.every"), "500 steps");
  EXPECT_EQ(spec.at("launch.hosts"), Json::array({"local", "local"}));
  EXPECT_EQ(spec.at("data.val")["labels"], "b");
}

TEST(Overrides, DashesAndUnderscoresAreEqual) {
  EXPECT_EQ(parse_with({"train.global-batch=32"}).at("train.global_batch"), 32);
  EXPECT_THAT(problems_with({"train.global-batch=32", "train.global_batch=64"}),
              ElementsAre(HasSubstr("--set: train.global_batch: given twice by --set")));
}

TEST(Overrides, ValuesThatAreNoFlowCollectionsAreTakenAsTheyStand) {
  EXPECT_EQ(parse_with({"output=/tmp/a: b #c"}).at("output"), "/tmp/a: b #c");
  EXPECT_EQ(parse_with({"output='*x'"}).at("output"), "*x");
  EXPECT_EQ(parse_with({"output=*x"}).at("output"), "*x");
}

TEST(Overrides, ErrorsSayWhereTheValueCameFrom) {
  EXPECT_THAT(problems_with({"train.epochs=many"}),
              ElementsAre("--set: train.epochs: expected none or an integer of at least 1, got \"many\"\nhint: "
                          "gputrain explain train.epochs"));
  EXPECT_THAT(problems_with({"trian.epochs=3"}), ElementsAre("--set: trian: unknown key\nhint: did you mean train?"));
  EXPECT_THAT(problems_with({"train.epoch=3"}),
              ElementsAre(HasSubstr("--set: train.epoch: unknown key\nhint: did you mean train.epochs?")));
  EXPECT_THAT(problems_with({"lr=3"}),
              ElementsAre(HasSubstr("--set: lr: unknown key\nhint: did you mean optimizer.lr?")));
  EXPECT_THAT(problems_with({"data.transforms=[to_tensor"}),
              ElementsAre(HasSubstr("--set: data.transforms: not valid YAML: a [ without its ]")));
  EXPECT_THAT(problems_with({"data.train={samples: 1, samples: 2}"}),
              ElementsAre(HasSubstr("--set: data.train.samples: the key is given twice")));
  EXPECT_THAT(problems_with({"model.args.hidden.0=3"}),
              ElementsAre(HasSubstr("--set: model.args.hidden.0: elements of a list cannot be set one by one\nhint: "
                                    "set model.args.hidden as a whole")));
  EXPECT_THAT(problems_with({"train.epochs="}),
              ElementsAre(HasSubstr("--set: train.epochs: expected none or an integer of at least 1, got nothing")));
  EXPECT_THAT(problems_with({"train.epochs=1e-400"}), ElementsAre(HasSubstr("got \"1e-400\"")));
}

TEST(Overrides, ErrorsOfFileAndOverridesComeTogetherFileFirst) {
  EXPECT_THAT(problems(good_with("seed: 7", "seed: x"), {parse_set("train.epochs=0")}),
              ElementsAre(HasSubstr("a.yaml:2:7: seed"), HasSubstr("--set: train.epochs")));
}

TEST(Overrides, FlagBeatsEnvironmentBeatsFile) {
  const Override environment = {OriginKind::kEnvironment, "GPUTRAIN_GRACE", "launch.grace", "10s"};
  const Override flag = {OriginKind::kFlag, "--grace", "launch.grace", "20s"};
  const std::string text = std::string(kGood) + "launch: {grace: 5s}\n";
  EXPECT_EQ(parse(text, {flag, environment}).at("launch.grace"), "20s");
  EXPECT_EQ(parse(text, {flag, environment}).find("launch.grace")->origin.place(), "--grace");
  EXPECT_EQ(parse(text, {environment}).at("launch.grace"), "10s");
  EXPECT_EQ(parse(text, {environment}).find("launch.grace")->origin.place(), "GPUTRAIN_GRACE");
  EXPECT_EQ(parse(text).at("launch.grace"), "5s");
  EXPECT_THAT(problems(text, {flag, parse_set("launch.grace=1s")}),
              ElementsAre(HasSubstr("launch.grace: given twice by --grace and --set")));
}

TEST(Overrides, HostsAsFlagsGiveThem) {
  const Override hosts = {OriginKind::kFlag, "--hosts", "launch.hosts", "local,local:3"};
  EXPECT_EQ(parse(std::string(kGood), {hosts}).at("launch.hosts"), Json::array({"local", "local:3"}));
  const Override empty = {OriginKind::kFlag, "--hosts", "launch.hosts", "local,"};
  EXPECT_THAT(problems(std::string(kGood), {empty}),
              ElementsAre(HasSubstr("--hosts: launch.hosts: a host without a name")));
}

TEST(Overrides, AWholeSectionCanBeReplaced) {
  const Spec spec = parse_with({"optimizer={name: sgd, lr: 0.5}"});
  EXPECT_EQ(spec.at("optimizer.momentum"), 0.0);
  EXPECT_EQ(spec.find("optimizer.betas"), nullptr);
  EXPECT_THAT(problems_with({"optimizer.name=sgd"}), IsEmpty());
  EXPECT_EQ(spec.find("optimizer.lr")->origin.place(), "--set");
}

}  // namespace
}  // namespace gputrain
