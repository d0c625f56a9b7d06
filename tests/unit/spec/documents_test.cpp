// The shipped configs, init's example, the schema, and YAML written back: all agree with the parser.
#include <filesystem>

#include "json_schema_check.h"
#include "spec/fields.h"
#include "spec/init.h"
#include "spec/resolve.h"
#include "spec/schema.h"
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> config_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(GPUTRAIN_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() == ".yaml") files.push_back("configs/" + entry.path().filename().string());
  }
  return files;
}

std::string schema_fault_of(const std::string& text) {
  return schema_fault(as_editor_sees(parse_text(text).root), json_schema());
}

TEST(Configs, EachOneParsesResolvesAndFitsTheSchema) {
  ASSERT_GE(config_files().size(), 3u);
  for (const auto& file : config_files()) {
    const std::string text = read_repo_file(file);
    EXPECT_THAT(problems(text), IsEmpty()) << file;
    EXPECT_NO_THROW(resolve(parse(text), {.cores = 2}, nullptr)) << file;
    EXPECT_NO_THROW(resolve(parse(text), {.cores = 64, .gpus = 8, .cuda_library = true}, nullptr)) << file;
    EXPECT_EQ(schema_fault_of(text), "") << file;
  }
}

TEST(Configs, FashionMnistIsTheDesignsRecipe) {
  const RunPlan plan = resolve(parse(read_repo_file("configs/fashion_mnist.yaml")), {.cores = 2, .cwd = "/w"}, nullptr);
  EXPECT_EQ(plan.name, "fashion-mnist");
  EXPECT_EQ(plan.output, "/w/runs/fashion-mnist");
  EXPECT_EQ(plan.launch.world_size, 2);
  EXPECT_EQ(plan.model.name, "small_cnn");
  EXPECT_EQ(plan.data.val->args["images"], "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz");
  EXPECT_EQ(plan.data.val->args["labels"], "/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz");
  ASSERT_EQ(plan.data.train_transforms.size(), 3u);
  EXPECT_EQ(plan.data.train_transforms[0].name, "random_horizontal_flip");
  EXPECT_EQ(plan.data.train_transforms[2].args.dump(), R"({"mean":[0.286],"std":[0.353]})");
  EXPECT_EQ(plan.data.val_transforms.size(), 2u);
  EXPECT_EQ(plan.train.epochs, 5);
  EXPECT_EQ(plan.train.global_batch, 256);
  EXPECT_EQ(plan.train.clip_grad_norm, 1.0);
  EXPECT_EQ(plan.optimizer.args["lr"], 2e-3);
  EXPECT_EQ(plan.optimizer.args["weight_decay"], 0.05);
  EXPECT_EQ(plan.schedule.name, "cosine");
  EXPECT_EQ(plan.schedule.warmup, (Length{1, Length::Unit::kEpochs}));
  EXPECT_EQ(plan.schedule.warmup_start, 0.1);
  EXPECT_EQ(plan.checkpoint.keep_best, "accuracy");
}

TEST(Init, TheExampleIsValidAndShowsEveryKey) {
  const std::string text = example_yaml();
  EXPECT_THAT(problems(text), IsEmpty());
  EXPECT_EQ(schema_fault_of(text), "");
  const Spec spec = parse(text);
  for (const auto& field : fields()) {
    if (field.type != FieldType::kArguments) {
      EXPECT_EQ(spec.given(field.key), !field.advanced) << field.key;
    }
  }
  for (const auto& line : {"lr: 1e-3", "betas: [0.9, 0.999]", "  args:", "keep_last: 3"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(Init, DefaultsInTheExampleAreTheDefaults) {
  const Spec example = parse(example_yaml());
  const Spec defaults = parse(std::string(kGood));
  for (const std::string key :
       {"launch.grace", "launch.nproc_per_node", "data.prefetch", "checkpoint.every", "schedule.warmup",
        "optimizer.eps", "train.micro_batch", "log.every", "evaluate.every"}) {
    EXPECT_EQ(example.at(key), defaults.at(key)) << key;
  }
}

TEST(ToYaml, ReadsBackToEqualSettings) {
  std::vector<std::string> texts = {
      std::string(kGood), example_yaml(), good_with("name: demo", "name: \"a: b #\\\"c\\\" \""),
      good_with("name: demo", "name: '~'"), good_with("name: demo", "name: 'null'\noutput: \"-x\"")};
  for (const auto& file : config_files()) texts.push_back(read_repo_file(file));
  for (const auto& text : texts) {
    const Spec spec = parse(text);
    const std::string written = to_yaml(spec);
    ASSERT_THAT(problems(written), IsEmpty()) << written;
    const Spec back = parse(written);
    ASSERT_EQ(back.settings().size(), spec.settings().size());
    for (size_t i = 0; i < spec.settings().size(); ++i) {
      EXPECT_EQ(back.settings()[i].key, spec.settings()[i].key);
      EXPECT_EQ(back.settings()[i].value, spec.settings()[i].value) << spec.settings()[i].key;
    }
    EXPECT_EQ(to_yaml(back), written);
    EXPECT_EQ(schema_fault_of(written), "");
  }
}

TEST(Schema, KnowsEveryFieldAndNamesTheDraft) {
  const Json schema = json_schema();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["additionalProperties"], false);
  const std::string text = schema.dump();
  for (const auto& field : fields())
    EXPECT_THAT(text, HasSubstr("\"" + std::string(field.key.substr(field.key.rfind('.') + 1)) + "\"")) << field.key;
  for (const auto& entry : catalog()) EXPECT_THAT(text, HasSubstr("\"" + entry.name + "\"")) << entry.name;
}

// Each of these is refused by the parser too.
TEST(Schema, RefusesWhatTheParserRefuses) {
  const std::pair<std::string, std::string> changes[] = {
      {"seed: 7", "seed: 7\nfoo: 1"},
      {"  epochs: 2", "  epochs: 2\n  epoch: 2"},
      {"epochs: 2", "epochs: 0"},
      {"epochs: 2", "epochs: 2.5"},
      {"epochs: 2", "epochs: many"},
      {"  global_batch: 16\n", ""},
      {"name: demo\n", ""},
      {"lr: 1e-3", "lr: 0"},
      {"lr: 1e-3", "lr: 1e-3\n  momentum: 0.9"},
      {"lr: 1e-3", "lr: 1e-3\n  betas: [0.9]"},
      {"lr: 1e-3", "lr: 1e-3\n  betas: [0.9, 1.0]"},
      {"  lr: 1e-3\n", ""},
      {"name: adamw", "name: adagrad"},
      {"name: mlp", "name: mpl"},
      {"hidden: [32]", "hidden: 32"},
      {"hidden: [32]", "hiden: [32]"},
      {"hidden: [32]", "in_channels: 1"},
      {"samples: 100, ", ""},
      {"samples: 100", "samples: 100, images: x"},
      {"format: synthetic", "format: csv"},
      {"train:\n  epochs", "  tail: maybe\ntrain:\n  epochs"},
      {"train:\n  epochs", "  transforms: {train: [to_tenso]}\ntrain:\n  epochs"},
      {"train:\n  epochs", "  transforms: {train: [normalize]}\ntrain:\n  epochs"},
      {"train:\n  epochs", "  transforms: {train: [{normalize: {mean: [0], std: [0]}}]}\ntrain:\n  epochs"},
      {"seed: 7", "checkpoint: {every: 12:00:00}"},
      {"seed: 7", "launch: {hosts: [gpu-1]}"},
      {"seed: 7", "launch: {grace: 30}"},
      {"seed: 7", "log: 3"},
  };
  EXPECT_EQ(schema_fault_of(std::string(kGood)), "");
  for (const auto& [from, to] : changes) {
    const std::string text = good_with(from, to);
    EXPECT_NE(schema_fault_of(text), "") << to;
    EXPECT_THAT(problems(text), testing::Not(IsEmpty())) << to;
  }
}

TEST(Schema, AcceptsWhatTheParserAccepts) {
  const std::pair<std::string, std::string> changes[] = {
      {"seed: 7", "x-note: {any: thing}"},
      {"name: demo", "name: 008"},
      {"name: demo", "name: on"},
      {"lr: 1e-3", "lr: \"1e-3\""},
      {"epochs: 2", "epochs: none\n  max_steps: 5"},
      {"  name: adamw\n", ""},
      {"name: adamw", "name: sgd\n  momentum: 0.9\n  nesterov: true"},
      {"train:\n  epochs", "  val: none\n  pin_memory: true\ntrain:\n  epochs"},
      {"seed: 7", "launch: {hosts: [local, \"local:2\"], nproc_per_node: 2, max_duration: 1.5h}"},
      {"seed: 7", "schedule: {name: linear, final_factor: 0.1, warmup: 5 steps}"},
      {"seed: 7", "checkpoint: {every: 500 steps, keep_last: 1}\nlog: {every: 1s}"},
  };
  for (const auto& [from, to] : changes) {
    const std::string text = good_with(from, to);
    EXPECT_THAT(problems(text), IsEmpty()) << to;
    EXPECT_EQ(schema_fault_of(text), "") << to;
  }
}

}  // namespace
}  // namespace gputrain
