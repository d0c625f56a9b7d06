#include "train/memory.h"

#include <new>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include "unit/train/train_rig.h"

namespace gputrain {
namespace {

using testing::alone;
using testing::Rig;
using testing::small_plan;
using testing::TempDir;

template <typename Body>
Error error_of(int64_t micro_batch, Body body) {
  try {
    with_memory_for(micro_batch, 1, "step 3", body);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kInternal, "");
}

constexpr int64_t kTooMuch = int64_t{1} << 50;  // bytes: more than any address space

TEST(Memory, TheCpuAllocatorsFailureIsNamedWithItsMicroBatch) {
  const Error error = error_of(64, [] { return at::empty({kTooMuch}, at::kByte); });
  EXPECT_EQ(error.kind, ErrorKind::kOutOfMemory);
  EXPECT_EQ(
      error.message,
      "no memory left for a micro-batch of 64 on rank 1: DefaultCPUAllocator: can't allocate memory: you tried to "
      "allocate " +
          std::to_string(kTooMuch) + " bytes. Error code 12 (Cannot allocate memory)");
  EXPECT_EQ(error.where, "step 3");
  EXPECT_EQ(error.hint, "set train.micro_batch below 64: less memory, the same global batch");
}

TEST(Memory, OtherWaysToRunOutAreKnown) {
  EXPECT_EQ(error_of(1, []() -> int { throw std::bad_alloc(); }).message,
            "no memory left for a micro-batch of 1 on rank 1");
  EXPECT_EQ(error_of(1, []() -> int { throw std::bad_alloc(); }).hint,
            "use a smaller model or input, or train.precision bf16");
  EXPECT_EQ(error_of(2, []() -> int { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory."); }).message,
            "no memory left for a micro-batch of 2 on rank 1: CUDA out of memory.");
  EXPECT_EQ(error_of(2, []() -> int { TORCH_CHECK(false, "CUBLAS_STATUS_ALLOC_FAILED when calling x"); }).kind,
            ErrorKind::kOutOfMemory);
}

TEST(Memory, WhatIsNoLackOfMemoryPasses) {
  EXPECT_THROW(with_memory_for(2, 0, "", []() -> int { TORCH_CHECK(false, "shapes"); }), c10::Error);
  EXPECT_EQ(error_of(2, []() -> int { throw Error(ErrorKind::kData, "torn"); }).kind, ErrorKind::kData);
  EXPECT_EQ(with_memory_for(2, 0, "", [] { return 7; }), 7);
}

class Hungry : public Model {
 public:
  at::Tensor forward(const at::Tensor& inputs) override { return at::empty({inputs.size(0), kTooMuch}, at::kByte); }
};

TEST(Memory, AStepAndAnEvaluationSayHowLargeTheirMicroBatchIs) {
  TempDir directory;
  RunPlan plan = small_plan(directory.path());
  plan.train.micro_batch = 5;
  Rig rig(plan, alone());
  Hungry hungry;
  EvaluateOptions options;
  options.loader = rig.loader_options();
  Evaluator evaluator({hungry, *rig.objective, nullptr, *rig.val, rig.vote, rig.marker, rig.stop}, options);
  const auto message_of = [](const auto& body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kOutOfMemory);
      return error.message + " at " + error.where;
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message_of([&] { evaluator.run(2); }),
              ::testing::MatchesRegex("no memory left for a micro-batch of 5 on rank 0: .* at evaluation of step 2"));
  rig.state.model = std::make_shared<Hungry>();
  EXPECT_THAT(message_of([&] { rig.runner->run(*rig.loader->next_step(), 10); }),
              ::testing::MatchesRegex("no memory left for a micro-batch of 5 on rank 0: .* at step 1"));
}

}  // namespace
}  // namespace gputrain
