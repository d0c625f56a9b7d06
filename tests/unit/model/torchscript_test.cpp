#include "model/torchscript.h"

#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/serialize.h>

#include "support/golden.h"
#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What torch.jit.script makes of a small network: submodules, BatchNorm's buffers, dropout by self.training, a plain
// tensor attribute.
torch::jit::Module network() {
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  at::manual_seed(9);
  torch::jit::Module linear("__torch__.Linear", unit);
  linear.register_attribute("training", c10::BoolType::get(), true);
  linear.register_parameter("weight", at::randn({8, 4}).requires_grad_(), /*is_buffer=*/false);
  linear.register_parameter("bias", at::randn({8}).requires_grad_(), /*is_buffer=*/false);
  linear.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  torch::jit::Module net("__torch__.Net", unit);
  net.register_attribute("training", c10::BoolType::get(), false);  // saved after eval()
  net.register_parameter("scale", at::ones({8}).requires_grad_(), false);
  net.register_parameter("fixed", at::ones({8}), false);
  net.register_buffer("count", at::zeros({}, at::kLong));
  net.register_buffer("mean", at::zeros({8}));
  net.register_attribute("shift", c10::TensorType::get(), at::ones({1}));
  net.register_module("fc", linear);
  net.define(R"(
def forward(self, x):
  if self.training:
    self.count.add_(1)
  h = torch.relu(self.fc.forward(x)) * self.scale * self.fixed - self.mean + self.shift
  return torch.dropout(h, 0.5, self.training)
)");
  return net;
}

torch::jit::Module with_forward(const std::string& code) {
  torch::jit::Module module("__torch__.Other");
  module.register_parameter("w", at::ones({4}).requires_grad_(), false);
  module.define(code);
  return module;
}

class TorchScript : public ::testing::Test {
 protected:
  ModelPlan saved(const torch::jit::Module& module) const {
    module.save(plan_path());
    return plan();
  }
  ModelPlan plan() const {
    ModelPlan plan;
    plan.torchscript = plan_path();
    return plan;
  }
  std::string plan_path() const { return directory_ / "m.pt"; }
  void write(const std::string& bytes) const { std::ofstream(plan_path(), std::ios::binary) << bytes; }
  std::string bytes() const {
    std::ifstream file(plan_path(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  static Error error_of(const ModelPlan& plan) {
    try {
      make_model(plan, 1, at::kFloat)->forward(at::ones({2, 4}));
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::kInternal, "none");
  }

  testing::TempDir directory_;
};

TEST_F(TorchScript, NamesAndWeightsAreTheFiles) {
  const torch::jit::Module script = network();
  const auto model = make_model(saved(script), 1, at::kFloat);
  std::vector<std::string> trained, all, buffers;
  for (const auto& [name, tensor] : named_parameters_of(*model)) trained.push_back(name);
  for (const auto& [name, tensor] : all_parameters_of(*model)) all.push_back(name);
  for (const auto& [name, tensor] : named_buffers_of(*model)) buffers.push_back(name);
  EXPECT_THAT(trained, ElementsAre("scale", "fc.weight", "fc.bias"));
  EXPECT_THAT(all, ElementsAre("scale", "fixed", "fc.weight", "fc.bias"));
  EXPECT_THAT(buffers, ElementsAre("count", "mean"));
  for (const auto& item : script.named_parameters()) {
    for (const auto& [name, tensor] : all_parameters_of(*model)) {
      if (name != item.name) continue;
      EXPECT_TRUE(at::equal(tensor, item.value)) << name;
    }
  }
  const auto other_seed = make_model(plan(), 2, at::kFloat);
  EXPECT_TRUE(at::equal(all_parameters_of(*other_seed)[2].second, all_parameters_of(*model)[2].second));
}

TEST_F(TorchScript, TrainsInPlaceInTheWantedPrecision) {
  const auto model = make_model(saved(network()), 1, at::kDouble);
  model->eval();
  const at::Tensor x = testing::ramp({3, 4}, at::kDouble);
  const at::Tensor y = model->forward(x);
  ASSERT_EQ(y.scalar_type(), at::kDouble);
  const auto parameters = named_parameters_of(*model);
  const at::Tensor expected =
      at::relu(at::linear(x, parameters[1].second, parameters[2].second)) * parameters[0].second + 1;
  EXPECT_TRUE(at::equal(y, expected));
  y.square().sum().backward();
  for (const auto& [name, parameter] : parameters) EXPECT_TRUE(parameter.grad().defined()) << name;
  EXPECT_EQ(named_buffers_of(*model)[0].second.scalar_type(), at::kLong);

  const at::NoGradGuard no_grad;
  at::Tensor(parameters[0].second).zero_();
  EXPECT_TRUE(at::equal(model->forward(x), at::ones({3, 8}, at::kDouble)));
}

TEST_F(TorchScript, ModeReachesIt) {
  const auto model = make_model(saved(network()), 1, at::kFloat);
  const at::Tensor x = testing::ramp({6, 4}, at::kFloat);
  EXPECT_FALSE(at::equal(model->forward(x), model->forward(x))) << "a model starts in training mode";
  model->eval();
  EXPECT_TRUE(at::equal(model->forward(x), model->forward(x)));
  model->train();
  EXPECT_FALSE(at::equal(model->forward(x), model->forward(x)));
  EXPECT_EQ(named_buffers_of(*model)[0].second.item<int64_t>(), 4) << "the buffer is the script's own";
}

// The profiling executor runs code twice as it finds it, then with gradients of its own: its dropout draws other
// numbers.
TEST_F(TorchScript, TheFirstPassIsAsTheTenthAndAsEager) {
  const auto model = make_model(saved(with_forward(R"(
def forward(self, x):
  h = torch.sigmoid(x * self.w) * torch.tanh(x + self.w) + x * 2
  h = torch.dropout(h, 0.5, True)
  return torch.relu(h) * h + torch.sigmoid(h) - h / 3
)")),
                                1, at::kFloat);
  const at::Tensor x = testing::ramp({6, 4}, at::kFloat), w = named_parameters_of(*model)[0].second;
  const auto gradient = [&](const std::function<at::Tensor()>& forward) {
    at::manual_seed(3);
    w.mutable_grad().reset();
    forward().square().sum().backward();
    return w.grad().clone();
  };
  const at::Tensor eager = gradient([&] {
    const at::Tensor h = at::dropout(at::sigmoid(x * w) * at::tanh(x + w) + x * 2, 0.5, true);
    return at::relu(h) * h + at::sigmoid(h) - h / 3;
  });
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(at::equal(gradient([&] { return model->forward(x); }), eager)) << i;
}

TEST_F(TorchScript, FilesThatAreNone) {
  EXPECT_EQ(error_of(plan()).kind, ErrorKind::kData);  // missing
  EXPECT_THAT(error_of(plan()).message, HasSubstr("m.pt"));

  write("<!DOCTYPE html><html></html>");
  EXPECT_EQ(error_of(plan()).kind, ErrorKind::kData);
  EXPECT_THAT(error_of(plan()).message, HasSubstr("is no TorchScript file: it is an HTML page"));
  EXPECT_THAT(error_of(plan()).hint, HasSubstr("torch.jit.script"));

  write(std::string("\x80\x02\x8a\nl\xfc\x9c", 7));
  EXPECT_THAT(error_of(plan()).message, HasSubstr("it is a Python pickle"));

  network().save(plan_path());
  write(bytes().substr(0, bytes().size() / 2));
  EXPECT_EQ(error_of(plan()).kind, ErrorKind::kData);
  EXPECT_THAT(error_of(plan()).message, HasSubstr("cannot be loaded as TorchScript: "));
}

// torch.save(model.state_dict()): a zip archive with data.pkl and no code.
TEST_F(TorchScript, AStateDictIsToldFromAModule) {
  c10::Dict<std::string, at::Tensor> state;
  state.insert("w", at::ones({2}));
  const std::vector<char> pickled = torch::jit::pickle_save(state);
  write(std::string(pickled.begin(), pickled.end()));
  EXPECT_EQ(error_of(plan()).kind, ErrorKind::kData);
  EXPECT_THAT(error_of(plan()).message, HasSubstr("an archive that torch.save wrote, without code"));
}

TEST_F(TorchScript, ModulesThatCannotBeTrained) {
  torch::jit::Module bare("__torch__.Bare");
  bare.define("def forward(self, x):\n  return x\n");
  EXPECT_EQ(error_of(saved(bare)).kind, ErrorKind::kSpec);
  EXPECT_THAT(error_of(plan()).message, HasSubstr("has no parameters"));
  EXPECT_THAT(error_of(plan()).hint, HasSubstr("torch.jit.freeze"));

  torch::jit::Module frozen("__torch__.Frozen");
  frozen.register_parameter("w", at::ones({4}), false);
  frozen.define("def forward(self, x):\n  return x * self.w\n");
  EXPECT_THAT(error_of(saved(frozen)).message, HasSubstr("no parameter with requires_grad"));
}

TEST_F(TorchScript, OneTensorInAndOneOut) {
  for (const auto& [code, words] : std::vector<std::pair<std::string, std::string>>{
           {"def forward(self, x):\n  return x * self.w, x\n", "returns Tuple[Tensor, Tensor]"},
           {"def forward(self, x):\n  return {'out': x * self.w}\n", "returns Dict[str, Tensor]"},
           {"def forward(self, x, y):\n  return x * self.w + y\n", "does not take one tensor"},
           {"def forward(self, x: List[Tensor]):\n  return x[0] * self.w\n", "does not take one tensor"},
           {"def forward(self, x) -> Any:\n  return (x * self.w, x)\n", "returned Tuple from forward"},
           {"def predict(self, x):\n  return x * self.w\n", "has no method forward"}}) {
    const Error error = error_of(saved(with_forward(code)));
    EXPECT_EQ(error.kind, ErrorKind::kSpec) << code;
    EXPECT_EQ(error.where, "model.torchscript") << code;
    EXPECT_THAT(error.message, HasSubstr(words)) << code;
  }
  const auto model =
      make_model(saved(with_forward("def forward(self, x, k: int = 2):\n  return x * self.w * k\n")), 1, at::kFloat);
  EXPECT_TRUE(at::equal(model->forward(at::ones({2, 4})), 2 * at::ones({2, 4})));
}

}  // namespace
}  // namespace gputrain
