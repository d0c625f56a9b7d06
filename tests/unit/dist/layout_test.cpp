// Bucket layouts as state: computed, saved, restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/bucket_layout.h"
#include "dist/reducer.h"
#include "support/run_ranks.h"
#include "toy_model.h"
#include "util/error.h"

namespace gputrain::test {
namespace {

using ::testing::HasSubstr;

std::vector<at::Tensor> four_parameters() {
  return {at::ones({100}), at::ones({200}), at::ones({300}), at::ones({50}, at::kDouble)};
}

TEST(BucketLayout, CutsByBytesInModelOrderAndReverses) {
  std::vector<at::Tensor> parameters;
  for (const int64_t size : {100, 200, 300, 400}) parameters.push_back(at::ones({size}));
  const size_t all = std::numeric_limits<size_t>::max();
  EXPECT_EQ(compute_layout(parameters, {all}), (BucketLayout{{0, 1, 2, 3}}));
  // A bucket is closed when it reaches its limit: 400 + 800 bytes >= 1000, then one each.
  EXPECT_EQ(compute_layout(parameters, {1000, 1200}), (BucketLayout{{3}, {2}, {0, 1}}));
  EXPECT_EQ(compute_layout(four_parameters(), {all}).size(), 2u);
}

TEST(BucketLayout, SurvivesJson) {
  const BucketLayout layout{{2, 0}, {3}, {1}};
  EXPECT_EQ(dump_line(layout_to_json(layout)), "[[2,0],[3],[1]]");
  EXPECT_EQ(layout_from_json(layout_to_json(layout), four_parameters()), layout);
}

TEST(BucketLayout, BadLayoutsAreRejectedWithTheReason) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"a": 1})", "not a list of buckets"},
      {"[[0,1,2]]", "parameter 3 is missing"},
      {"[]", "parameter 0 is missing"},
      {"[[0,1,2],[3],[0]]", "parameter 0 occurs twice"},
      {"[[0,1,2],[4]]", "4 is not an index of 4 parameters"},
      {"[[0,1,2],[-1]]", "-1 is not an index"},
      {"[[0,1,2],[3.0]]", "3.0 is not an index"},
      {R"([[0,1,2],["3"]])", R"("3" is not an index)"},
      {"[[0,1,2],[]]", "a bucket is not a list of parameters: []"},
      {"[[0,1,2],3]", "a bucket is not a list of parameters: 3"},
      {"[[0,1,2,3]]", "mixes dtypes"},
  };
  for (const auto& [text, reason] : cases) {
    try {
      layout_from_json(parse_json(text, "test"), four_parameters());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kCheckpoint) << text;
      EXPECT_THAT(error.message, HasSubstr(reason)) << text;
    }
  }
}

ReducerOptions small_buckets(bool deterministic) {
  ReducerOptions options;
  options.deterministic = deterministic;
  options.first_bucket_bytes = 10'000;
  options.bucket_bytes = 30'000;
  return options;
}

struct Trainer {
  Comm& comm;
  ToyModel model{61, {97, 40, 113, 5}, at::kFloat};

  void run(GradReducer& reducer, int first_step, int last_step) {
    for (int step = first_step; step < last_step; ++step) {
      run_step(reducer, comm, model, {model.samples(17, step), 2});
      descend(model, 0.01);
    }
  }
};

// Six steps at once against three, then three by a new Reducer on the parameters and the layout that were saved.
void expect_exact_resume(const Comms& comms, bool deterministic) {
  Trainer straight{*comms.control}, resumed{*comms.control};
  const auto reducer =
      make_reducer(comms.gradients, straight.model.parameters, straight.model.names, small_buckets(deterministic));
  straight.run(*reducer, 0, 6);
  Json saved;
  {
    const auto first =
        make_reducer(comms.gradients, resumed.model.parameters, resumed.model.names, small_buckets(deterministic));
    resumed.run(*first, 0, 3);
    saved = first->layout();
    EXPECT_EQ(saved, reducer->layout());
  }
  for (auto& parameter : resumed.model.parameters) parameter = parameter.detach().clone().requires_grad_(true);
  ReducerOptions options = small_buckets(deterministic);
  options.layout = saved;
  const auto second = make_reducer(comms.gradients, resumed.model.parameters, resumed.model.names, options);
  EXPECT_EQ(second->layout(), saved);
  resumed.run(*second, 3, 6);
  EXPECT_EQ(second->layout(), saved);  // never rebuilt
  for (size_t i = 0; i < resumed.model.parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(resumed.model.parameters[i].detach(), straight.model.parameters[i].detach()))
        << resumed.model.names[i];
  }
  EXPECT_TRUE(same_on_all_ranks(*comms.control, resumed.model.parameters));
}

class ResumeTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, ResumeTest, ::testing::Values(1, 2, 3));

TEST_P(ResumeTest, SavedLayoutGivesTheSameBits) {
  const auto exits = run_ranks(GetParam(), [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    expect_exact_resume(comms, /*deterministic=*/true);
    expect_exact_resume(comms, /*deterministic=*/false);
  });
  EXPECT_EQ(exits, all_succeed(GetParam()));
}

TEST(ReducerLayout, RebuiltOnceInBackwardOrderUnlessDeterministic) {
  const auto exits = run_ranks(2, [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    for (const bool deterministic : {false, true}) {
      Trainer trainer{*comms.control};
      const auto reducer =
          make_reducer(comms.gradients, trainer.model.parameters, trainer.model.names, small_buckets(deterministic));
      const Json initial = reducer->layout();
      EXPECT_EQ(initial.size() == 1, !deterministic) << dump_line(initial);
      trainer.run(*reducer, 0, 1);
      const Json second = reducer->layout();
      EXPECT_EQ(second == initial, deterministic) << dump_line(second);
      EXPECT_GT(second.size(), 1u);
      trainer.run(*reducer, 1, 4);
      EXPECT_EQ(reducer->layout(), second);
    }
  });
  EXPECT_EQ(exits, all_succeed(2));
}

TEST(ReducerLayout, ALayoutOfAnotherWorldIsUsedAndThatOfAWorldOfOneIsNot) {
  const auto exits = run_ranks(2, [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    const ToyModel model(3, {4, 5});
    for (const auto& [saved, expected] : std::vector<std::pair<const char*, const char*>>{
             {"[[1],[0,3],[2]]", "[[1],[0,3],[2]]"}, {"[]", "[[0,1,2,3]]"}}) {
      ReducerOptions reducer_options;
      reducer_options.layout = parse_json(saved, "test");
      EXPECT_EQ(dump_line(make_reducer(comms.gradients, model.parameters, model.names, reducer_options)->layout()),
                expected);
    }
  });
  EXPECT_EQ(exits, all_succeed(2));
}

TEST(ReducerLayout, DifferentLayoutsOnTheRanksAreAnErrorNotACrash) {
  const auto exits = run_ranks(3, [](int rank, const CommOptions& options) {
    const Comms comms = make_comms(options);
    const ToyModel model(3, {4, 5});
    ReducerOptions reducer_options;
    reducer_options.layout = parse_json(rank == 2 ? "[[0],[1,2,3]]" : "[[0,1],[2,3]]", "test");
    try {
      make_reducer(comms.gradients, model.parameters, model.names, reducer_options);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.message,
                "the bucket layout differs between the ranks: rank 2 has `[[0],[1,2,3]]`, rank 0 has `[[0,1],[2,3]]`");
    }
  });
  EXPECT_EQ(exits, all_succeed(3));
}

}  // namespace
}  // namespace gputrain::test
