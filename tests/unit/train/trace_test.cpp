#include "train/trace.h"

#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ckpt/safetensors.h"
#include "sys/fs.h"
#include "unit/train/train_rig.h"
#include "util/json.h"

namespace gputrain {
namespace {

using testing::TempDir;

TEST(Hash, SeesEveryBitAndTheOrder) {
  const at::Tensor a = at::arange(7, at::kFloat), b = at::ones({3}, at::kFloat);
  EXPECT_EQ(hash_of({a, b}), hash_of({a.clone(), b.clone()}));
  EXPECT_EQ(hash_of({a}).size(), 16u);
  EXPECT_NE(hash_of({a, b}), hash_of({b, a}));
  at::Tensor c = a.clone();
  static_cast<char*>(c.data_ptr())[27] ^= 1;  // the last byte
  EXPECT_NE(hash_of({c}), hash_of({a}));
  EXPECT_NE(hash_of({at::zeros({2})}), hash_of({at::zeros({4})}));
  EXPECT_NE(hash_of({at::full({1}, 0.0)}), hash_of({at::full({1}, -0.0)}));
}

TEST(Trace, WritesALineAStep) {
  TempDir directory;
  Trace trace(directory / "deep/er", 3, 1);
  trace.step({.step = 5, .ids = {4, 2}, .all_reduces = 2, .loss = NAN}, {at::ones({2})});
  trace.step({.step = 6, .ids = {}, .all_reduces = 2, .loss = 0.5}, {at::ones({2})});
  std::ifstream file(directory / "deep/er/attempt-3-rank-1.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, R"({"step":5,"ids":[4,2],"all_reduces":2,"loss":"nan","parameters_hash":")" +
                      hash_of({at::ones({2})}) + "\"}");
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(parse_json(line, "").at("ids"), Json::array());
  EXPECT_FALSE(std::getline(file, line));
}

TEST(Trace, GradientsAreTheRunners) {
  TempDir directory;
  testing::Rig rig(testing::small_plan(directory / "run"), testing::alone());
  rig.runner->run(*rig.loader->next_step(), 10);
  Trace trace(directory / "trace", 1, 0);
  trace.gradients(rig.state, 1);
  const auto tensors =
      read_safetensors(real_file_system(), directory / "trace/attempt-1-rank-0.gradients-1.safetensors");
  ASSERT_EQ(tensors.size(), 6u);
  EXPECT_TRUE(at::equal(tensors.at("fc1.weight"), rig.state.parameters()[0].grad()));
}

}  // namespace
}  // namespace gputrain
