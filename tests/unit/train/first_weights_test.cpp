#include "train/first_weights.h"

#include <fstream>

#include <gmock/gmock.h>

#include "ckpt/safetensors.h"
#include "support/golden.h"
#include "unit/train/train_rig.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::AllOf;
using testing::alone;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ramp;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

// A backbone with a prefix, a tied head, an integer buffer and a mask that public files hold.
class Backbone : public Model {
 public:
  Backbone() {
    auto body = std::make_shared<Part>();
    body->register_parameter("wte", at::zeros({3, 2}));
    body->register_parameter("bias", at::zeros({2}));
    body->register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
    register_module("body", body);
    auto head = std::make_shared<Part>();
    head->register_parameter("weight", body->named_parameters()["wte"]);
    register_module("head", head);
    register_parameter("fc", at::zeros({4}));
  }
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }
  std::string base_prefix() const override { return "body."; }
  std::vector<std::string> surplus_patterns() const override { return {"body.*.mask"}; }

 private:
  struct Part : torch::nn::Module {};
};

const char* const kAll[] = {"fc", "body.wte", "body.bias", "body.num_batches_tracked"};

class FirstWeights : public ::testing::Test {
 protected:
  FirstWeights() { plan_.init = directory_ / "w.safetensors"; }

  void write(const NamedTensors& tensors) const {
    FileSystem& fs = real_file_system();
    fs.remove_all(plan_.init);
    const auto file = fs.create(plan_.init);
    write_safetensors(*file, plan_safetensors(tensors));
    file->close();
  }
  // Everything that the model needs, under other names if need be.
  static NamedTensors full(const std::string& body = "body.") {
    return {{"fc", ramp({4}, at::kFloat)},
            {body + "wte", ramp({3, 2}, at::kFloat)},
            {body + "bias", ramp({2}, at::kFloat)},
            {body + "num_batches_tracked", at::full({}, 7, at::kLong)}};
  }
  InitReport load() const { return init_model(real_file_system(), model_, plan_); }
  at::Tensor value(const std::string& name) const {
    const auto parameters = model_.named_parameters(), buffers = model_.named_buffers();
    return parameters.contains(name) ? parameters[name] : buffers[name];
  }
  Error error() const {
    try {
      load();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::kInternal, "none");
  }
  // An error that leaves the model as it was.
  Error refusal() const {
    const Error error = this->error();
    for (const auto& [name, tensor] : model_tensors(model_)) EXPECT_EQ(tensor.abs().sum().item<double>(), 0) << name;
    return error;
  }

  TempDir directory_;
  Backbone model_;
  ModelPlan plan_;
};

TEST_F(FirstWeights, AllTensorsAreLoadedUnderTheirNames) {
  write(full());
  const InitReport report = load();
  EXPECT_THAT(report.loaded, ElementsAre(kAll[0], kAll[1], kAll[2], kAll[3]));
  EXPECT_THAT(report.missing, IsEmpty());
  EXPECT_THAT(report.extra, IsEmpty());
  for (const auto& [name, tensor] : full()) EXPECT_TRUE(at::equal(value(name), tensor)) << name;
  EXPECT_TRUE(value("fc").requires_grad());
  EXPECT_THAT(report.notices(),
              ElementsAre("model.init: 4 tensors loaded from " + plan_.init + ", listed in rank 0's log"));
  EXPECT_EQ(report.loaded_names(),
            "model.init: loaded from " + plan_.init + ": fc, body.wte, body.bias, body.num_batches_tracked");
}

TEST_F(FirstWeights, ThePrefixMayBeMissingAndSurplusIsKnown) {
  NamedTensors tensors = full("");
  tensors.emplace_back("h.0.mask", at::ones({2, 2}, at::kBool));
  write(tensors);
  const InitReport report = load();
  EXPECT_EQ(report.loaded.size(), 4u);
  EXPECT_THAT(report.ignored, ElementsAre("h.0.mask"));
  EXPECT_TRUE(at::equal(value("body.wte"), ramp({3, 2}, at::kFloat)));
  EXPECT_THAT(report.notices()[1], HasSubstr("1 tensor left alone: h.0.mask"));
}

TEST_F(FirstWeights, AWrappersNameIsLeftOutWhereAllHaveIt) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : full()) tensors.emplace_back("module." + name, tensor);
  write(tensors);
  const InitReport report = load();
  EXPECT_EQ(report.loaded.size(), 4u);
  EXPECT_THAT(report.notices()[1], HasSubstr("begin with \"module.\", which was left out"));
  tensors[0].first = "fc";
  write(tensors);
  EXPECT_THAT(error().message, AllOf(HasSubstr("2 missing from the file: body.wte, body.bias"),
                                     HasSubstr("3 not of the model: module.body.bias")));
}

TEST_F(FirstWeights, ASharedTensorHasAnyOfItsNames) {
  NamedTensors tensors = full();
  tensors[1].first = "head.weight";
  write(tensors);
  EXPECT_THAT(load().loaded, ElementsAre(kAll[0], kAll[1], kAll[2], kAll[3]));
  EXPECT_TRUE(at::equal(value("body.wte"), ramp({3, 2}, at::kFloat)));

  tensors.emplace_back("body.wte", ramp({3, 2}, at::kFloat));  // both, equal
  write(tensors);
  EXPECT_EQ(load().loaded.size(), 4u);
}

TEST_F(FirstWeights, ASharedTensorThatDiffersInTheFileIsRefused) {
  NamedTensors tensors = full();
  tensors.emplace_back("head.weight", ramp({3, 2}, at::kFloat, 1));
  write(tensors);
  const Error error = refusal();
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_THAT(error.message, HasSubstr("body.wte and head.weight differ in the file"));
}

TEST_F(FirstWeights, FloatingPointTypesAreConverted) {
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kDouble}) {
    NamedTensors tensors = full();
    for (auto& [name, tensor] : tensors) {
      if (tensor.is_floating_point()) tensor = tensor.to(type);
    }
    write(tensors);
    load();
    EXPECT_EQ(value("fc").scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(value("fc"), ramp({4}, at::kFloat).to(type).to(at::kFloat))) << type;
  }
}

TEST_F(FirstWeights, EveryMissingExtraAndMisshapenTensorIsListedAndNothingLoaded) {
  write({{"fc", ramp({5}, at::kFloat)},
         {"body.wte", at::ones({3, 2}, at::kLong)},
         {"body.num_batches_tracked", at::full({}, 7, at::kLong)},
         {"stem.weight", at::ones({2})},
         {"stem.bias", at::ones({2})}});
  const Error error = refusal();
  EXPECT_EQ(error.kind, ErrorKind::kData);
  EXPECT_EQ(error.where, plan_.init);
  EXPECT_THAT(error.message, HasSubstr("1 missing from the file: body.bias"));
  EXPECT_THAT(error.message, HasSubstr("2 not of the model: stem.bias, stem.weight"));
  EXPECT_THAT(error.message, HasSubstr("2 of another shape or type: "));
  EXPECT_THAT(error.message, HasSubstr("fc is Float[5], the model needs Float[4]"));
  EXPECT_THAT(error.message, HasSubstr("body.wte is Long[3, 2], the model needs Float[3, 2]"));
  EXPECT_THAT(error.hint, AllOf(HasSubstr("init_ignore"), HasSubstr("init_strict: false")));
}

TEST_F(FirstWeights, WithoutStrictnessWhatFitsIsLoadedAndTheRestListed) {
  plan_.init_strict = false;
  write({{"body.bias", ramp({2}, at::kFloat)}, {"stem.weight", at::ones({2})}});
  const InitReport report = load();
  EXPECT_THAT(report.loaded, ElementsAre("body.bias"));
  EXPECT_THAT(report.missing, ElementsAre("fc", "body.wte"));
  EXPECT_THAT(report.extra, ElementsAre("stem.weight"));
  EXPECT_THAT(report.notices(),
              ElementsAre("model.init: 1 tensor loaded from " + plan_.init + ", listed in rank 0's log",
                          "model.init: 2 tensors not in the file, random: fc, body.wte",
                          "model.init: 1 tensor of the file not used: stem.weight"));
}

TEST_F(FirstWeights, WithoutStrictnessShapesStillCountAndNothingAtAllIsAnError) {
  plan_.init_strict = false;
  write({{"body.bias", ramp({2}, at::kFloat)}, {"fc", at::ones({5})}});
  EXPECT_THAT(refusal().message, AllOf(HasSubstr("fc is Float[5]"), Not(HasSubstr("missing"))));
  write({{"stem.weight", at::ones({2})}});
  EXPECT_THAT(refusal().message, HasSubstr("none of its tensors is one of the model"));
}

TEST_F(FirstWeights, IgnoredTensorsTakeNoPartOnEitherSide) {
  plan_.init_ignore = {"f?", "stem.*"};
  NamedTensors tensors = full();
  tensors[0].second = at::ones({5});  // a head of five classes, replaced by ours
  tensors.emplace_back("stem.weight", at::ones({2}));
  write(tensors);
  const InitReport report = load();
  EXPECT_THAT(report.ignored, ElementsAre("fc", "stem.weight"));
  EXPECT_THAT(report.loaded, ElementsAre(kAll[1], kAll[2], kAll[3]));
  EXPECT_TRUE(at::equal(value("fc"), at::zeros({4})));

  plan_.init_ignore = {"fc", "wte", "stem*"};  // names without the prefix, too
  EXPECT_THAT(load().ignored, ElementsAre("fc", "body.wte", "stem.weight"));
}

TEST_F(FirstWeights, APatternThatMatchesNothingIsAnError) {
  plan_.init_ignore = {"fc", "classifier.*"};
  write(full());
  const Error error = refusal();
  EXPECT_EQ(error.kind, ErrorKind::kSpec);
  EXPECT_EQ(error.where, "model.init_ignore");
  EXPECT_THAT(error.message, HasSubstr("\"classifier.*\" matches no tensor"));
}

TEST_F(FirstWeights, ACountOfBatchesThatOlderFilesLackIsNotMissing) {
  NamedTensors tensors = full();
  tensors.pop_back();
  write(tensors);
  EXPECT_EQ(load().loaded.size(), 3u);
}

TEST_F(FirstWeights, FilesThatAreNone) {
  EXPECT_EQ(error().kind, ErrorKind::kData);  // missing
  EXPECT_THAT(error().message, HasSubstr("w.safetensors"));
  std::ofstream(plan_.init, std::ios::binary) << std::string("\x80\x02}q\x00.................", 20);
  EXPECT_EQ(error().kind, ErrorKind::kData);
  EXPECT_THAT(error().message, HasSubstr("is a Python pickle"));
  EXPECT_THAT(error().hint, HasSubstr("safetensors.torch"));
  write(full());
  std::filesystem::resize_file(plan_.init, std::filesystem::file_size(plan_.init) - 3);
  EXPECT_EQ(error().kind, ErrorKind::kData);
  EXPECT_THAT(error().message, HasSubstr("truncated"));
}

// GPT-2's public file: no "transformer.", masks in each block, the output layer under the embedding's name alone.
TEST_F(FirstWeights, PublicGptFiles) {
  ModelPlan plan;
  plan.name = "gpt";
  plan.args = {{"size", "custom"}, {"layers", 2},      {"heads", 2},    {"width", 8},
               {"context", 4},     {"vocab_size", 11}, {"dropout", 0.0}};
  plan.init = plan_.init;
  const auto source = make_model(plan, 3, at::kFloat), target = make_model(plan, 4, at::kFloat);
  NamedTensors tensors;
  for (const auto& [name, tensor] : model_tensors(*source))
    tensors.emplace_back(name.substr(std::string("transformer.").size()), tensor);
  for (const char* block : {"h.0.attn.", "h.1.attn."}) {
    tensors.emplace_back(block + std::string("bias"), at::ones({1, 1, 4, 4}));
    tensors.emplace_back(block + std::string("masked_bias"), at::full({}, -1e4));
  }
  write(tensors);
  const InitReport report = init_model(real_file_system(), *target, plan);
  EXPECT_EQ(report.ignored.size(), 4u);
  EXPECT_THAT(report.loaded, ::testing::SizeIs(model_tensors(*source).size()));
  const at::Tensor tokens = at::arange(4).unsqueeze(0);
  EXPECT_TRUE(at::equal(source->forward(tokens), target->forward(tokens)));
}

// A run starts from the file, also on the rank that has none; one that goes on does not need it any more.
void start_from_a_file(int rank, const CommOptions& options, const std::string& shared) {
  RunPlan plan = small_plan(shared + "/run");
  plan.checkpoint.every = testing::epochs(1);
  const Comms comms = make_comms(options);
  Rig rig(plan, comms);
  plan.model.init = shared + "/w.safetensors";
  int calls = 0;
  const auto nothing = [] { return ResumeChoice{}; };
  const auto begin = [&] {
    ++calls;
    return init_model(real_file_system(), *rig.state.model, plan.model).notices();
  };
  const Resumed resumed = resume(comms, rig.state, rig.stamp, nothing, begin);
  EXPECT_EQ(calls, rank == 0 ? 1 : 0);
  ASSERT_EQ(resumed.begun.size(), 1u);
  EXPECT_THAT(resumed.begun[0], HasSubstr("6 tensors loaded"));
  for (const auto& [name, tensor] : model_tensors(*rig.state.model))
    EXPECT_TRUE(at::equal(tensor, at::full_like(tensor, 0.125))) << name;

  rig.run();
  Rig again(plan, comms);
  ASSERT_TRUE(again.resumed.saved);
  const Resumed continued = resume(
      comms, again.state, again.stamp,
      [&] { return load_for_resume(*again.fs, plan.output + "/checkpoints", "auto", ""); }, begin);
  EXPECT_THAT(continued.begun, IsEmpty());
  EXPECT_EQ(calls, rank == 0 ? 1 : 0);
}

TEST_F(FirstWeights, OneRankReadsAndAllStartEqual) {
  NamedTensors tensors = model_tensors(*make_model(small_plan("").model, 1, at::kFloat));
  for (auto& [name, tensor] : tensors) tensor = at::full_like(tensor, 0.125);
  write(tensors);
  EXPECT_EQ(test::run_ranks(
                2, [&](int rank, const CommOptions& options) { start_from_a_file(rank, options, directory_.path()); }),
            test::all_succeed(2));
}

TEST_F(FirstWeights, AnErrorOnTheReadingRankReachesAll) {
  EXPECT_EQ(test::run_ranks(2,
                            [&](int rank, const CommOptions& options) {
                              const Comms comms = make_comms(options);
                              Rig rig(small_plan(directory_ / "run"), comms);
                              rig.plan.model.init = directory_ / "missing.safetensors";
                              try {
                                resume(
                                    comms, rig.state, rig.stamp, [] { return ResumeChoice{}; },
                                    [&] {
                                      return init_model(real_file_system(), *rig.state.model, rig.plan.model).notices();
                                    });
                                ADD_FAILURE() << "no error";
                              } catch (const Error& error) {
                                EXPECT_EQ(error.kind, rank == 0 ? ErrorKind::kData : ErrorKind::kPeerLost);
                              }
                            }),
            test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain
