// What a TorchScript module's code does while it runs: fail, and assign its buffers.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include "model/model.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class ScriptCall : public ::testing::Test {
 protected:
  // A module with a weight [4], a buffer `mean` [4] and a count, and this code.
  std::shared_ptr<Model> model_of(const std::string& code, at::ScalarType type = at::kFloat) const {
    torch::jit::Module module("__torch__.Net");
    module.register_parameter("w", at::full({4}, 2.0f).requires_grad_(), /*is_buffer=*/false);
    module.register_buffer("mean", at::zeros({4}));
    module.register_buffer("count", at::zeros({}, at::kLong));
    module.define(code);
    ModelPlan plan;
    plan.torchscript = directory_ / "m.pt";
    module.save(plan.torchscript);
    return make_model(plan, 1, type);
  }
  static at::Tensor buffer(const Model& model, const std::string& name) { return model.named_buffers()[name]; }

  // Of a call with [2, 4].
  static std::string torch_error(Model& model) {
    try {
      model.forward(at::ones({2, 4}));
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("failed in the TorchScript interpreter")) << "the stack is for the log";
      return error.what_without_backtrace();
    }
    ADD_FAILURE() << "no c10::Error";
    return "";
  }

  const testing::TempDir directory_;
};

TEST_F(ScriptCall, ShapesThatDoNotFitAreLibTorchsOwnError) {
  const auto model = model_of("def forward(self, x):\n  return torch.matmul(x, torch.ones([3, 4])) * self.w\n");
  EXPECT_THAT(torch_error(*model), StartsWith("mat1 and mat2 shapes cannot be multiplied (2x4 and 3x4)"));
}

TEST_F(ScriptCall, WhatTheScriptRaisesIsToldInItsWords) {
  const auto model = model_of("def forward(self, x):\n  assert x.size(0) != 2, 'no such luck'\n  return x * self.w\n");
  EXPECT_THAT(torch_error(*model), HasSubstr("no such luck"));
  EXPECT_THAT(torch_error(*model), ::testing::Not(HasSubstr("\n")));
}

TEST_F(ScriptCall, ExhaustedMemoryIsKnownAsSuch) {
  const auto model = model_of("def forward(self, x):\n  return torch.ones([1125899906842624]) * self.w\n");
  EXPECT_THROW(model->forward(at::ones({2, 4})), c10::OutOfMemoryError);
  EXPECT_THAT(torch_error(*model), HasSubstr("DefaultCPUAllocator: can't allocate memory"));
}

TEST_F(ScriptCall, ABufferThatIsAssignedIsSeenByAllWhoHoldIt) {
  const auto model = model_of(R"(
def forward(self, x):
  self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
  self.count = self.count + 1
  return x * self.w - self.mean
)");
  const at::Tensor held = buffer(*model, "mean"), count = buffer(*model, "count");
  for (int call = 1; call <= 3; ++call) {
    model->forward(at::ones({2, 4})).sum().backward();
    EXPECT_TRUE(at::equal(held, at::full({4}, 1 - std::pow(0.5f, call)))) << call;
    EXPECT_EQ(count.item<int64_t>(), call);
    EXPECT_TRUE(held.is_same(buffer(*model, "mean"))) << "the same object";
  }
  const at::NoGradGuard no_grad;
  at::Tensor(held).fill_(4.0f);  // as a resumed run does
  model->forward(at::ones({2, 4}));
  EXPECT_TRUE(at::equal(held, at::full({4}, 2.5f))) << "and the script sees what others write";
}

// The gradient of x * mean needs the mean of before the assignment.
TEST_F(ScriptCall, BackwardHasTheValuesOfItsForwardPass) {
  const auto model = model_of(R"(
def forward(self, x):
  y = (x * self.w) * self.mean
  self.mean = self.mean * 10.0
  return y
)");
  at::Tensor(buffer(*model, "mean")).fill_(3.0f);
  model->forward(at::ones({2, 4})).sum().backward();
  EXPECT_TRUE(at::equal(named_parameters_of(*model)[0].second.grad(), at::full({4}, 6.0f)));
  EXPECT_TRUE(at::equal(buffer(*model, "mean"), at::full({4}, 30.0f)));
}

// A view of a parameter must not become a way to write to it.
TEST_F(ScriptCall, ABufferIsACopyOfWhatItIsAssigned) {
  const auto model = model_of("def forward(self, x):\n  self.mean = self.w\n  return x * self.w\n");
  model->forward(at::ones({2, 4})).sum().backward();
  const at::Tensor mean = buffer(*model, "mean");
  EXPECT_TRUE(at::equal(mean, at::full({4}, 2.0f)));
  EXPECT_FALSE(mean.requires_grad());
  const at::NoGradGuard no_grad;
  at::Tensor(mean).zero_();
  EXPECT_TRUE(at::equal(named_parameters_of(*model)[0].second, at::full({4}, 2.0f)));
}

TEST_F(ScriptCall, ABufferKeepsItsTypeInAnyPrecision) {
  const auto model =
      model_of("def forward(self, x):\n  self.mean = x.mean(0).half()\n  return x * self.w\n", at::kDouble);
  model->forward(at::ones({2, 4}, at::kDouble));
  EXPECT_EQ(buffer(*model, "mean").scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(buffer(*model, "mean"), at::ones({4}, at::kDouble)));
}

TEST_F(ScriptCall, ABufferOfAnotherShapeOrKindIsRefused) {
  for (const auto& [code, words] : std::vector<std::pair<std::string, std::string>>{
           {"self.mean = x", "assigns Float[2, 4] to its buffer mean, which is Float[4]"},
           {"self.count = self.count * 0.5", "assigns Float[] to its buffer count, which is Long[]"}}) {
    const auto model = model_of("def forward(self, x):\n  " + code + "\n  return x * self.w\n");
    try {
      model->forward(at::ones({2, 4}));
      ADD_FAILURE() << "no error for " << code;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kSpec);
      EXPECT_THAT(error.message, HasSubstr(words));
    }
  }
}

}  // namespace
}  // namespace gputrain
