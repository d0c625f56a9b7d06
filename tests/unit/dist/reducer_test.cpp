#include "dist/reducer.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "support/run_ranks.h"
#include "toy_model.h"
#include "util/error.h"

namespace gputrain::test {
namespace {

using ::testing::HasSubstr;

ReducerOptions options_of(const std::string& kind, bool deterministic = false) {
  ReducerOptions options;
  options.kind = kind;
  options.deterministic = deterministic;
  options.first_bucket_bytes = options.bucket_bytes = 300;
  return options;
}

class ReducerTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, ReducerTest, ::testing::Values(1, 2, 3));

// All combinations in one set of processes. Global batches of 12 (even), 7 (uneven shares: different numbers of
// micro-batches on the ranks), 2 and 1 (ranks without samples); micro-batches that make 1 to 4 of the largest share.
TEST_P(ReducerTest, GradientIsThatOfTheWholeBatch) {
  const auto exits = run_ranks(GetParam(), [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    for (const auto& reducer_options : {options_of("c10d"), options_of("c10d", true), options_of("flat")}) {
      ToyModel model(7, {11, 30, 2});
      const auto reducer = make_reducer(comms.gradients, model.parameters, model.names, reducer_options);
      for (const int64_t global : {12, 7, 2, 1}) {
        const int64_t largest = (global + options.world_size - 1) / options.world_size;
        for (int64_t parts = 1; parts <= std::min<int64_t>(4, largest); ++parts) {
          const at::Tensor batch = model.samples(global, parts);
          run_step(*reducer, *comms.gradients, model, {batch, (largest + parts - 1) / parts});
          const auto expected = model.analytic_gradient(batch);
          for (size_t i = 0; i < expected.size(); ++i) {
            EXPECT_LT(relative_difference(model.parameters[i].grad(), expected[i]), 1e-12)
                << reducer_options.kind << " G " << global << " parts " << parts << " " << model.names[i];
          }
          descend(model, 0.01);
        }
      }
      EXPECT_TRUE(same_on_all_ranks(*comms.control, model.parameters)) << reducer_options.kind;
    }
  });
  EXPECT_EQ(exits, all_succeed(GetParam()));
}

TEST_P(ReducerTest, OneAllReduceABucketWhateverTheAccumulation) {
  const auto exits = run_ranks(GetParam(), [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    for (auto reducer_options : {options_of("c10d"), options_of("c10d", true), options_of("flat")}) {
      ToyModel model(7, {11, 30, 2});
      int64_t called = 0, expected = 0;
      reducer_options.on_all_reduce = [&] { ++called; };
      const auto reducer = make_reducer(comms.gradients, model.parameters, model.names, reducer_options);
      for (int64_t micro_batch = 1; micro_batch <= 4; ++micro_batch) {
        expected += static_cast<int64_t>(reducer->layout().size());
        run_step(*reducer, *comms.gradients, model, {model.samples(12), micro_batch});
        EXPECT_EQ(reducer->all_reduce_count(), expected) << reducer_options.kind << " micro-batch " << micro_batch;
        EXPECT_EQ(called, expected);
      }
      const char* layout = options.world_size == 1          ? "[]"
                           : reducer_options.kind == "flat" ? "[[0,1,2,3,4,5]]"
                           : reducer_options.deterministic  ? "[[5],[3,4],[1,2],[0]]"
                                                            : "[[5,4,3],[2],[1,0]]";
      EXPECT_EQ(dump_line(reducer->layout()), layout);
    }
  });
  EXPECT_EQ(exits, all_succeed(GetParam()));
}

TEST_P(ReducerTest, GradientTensorsStayThoseOfTheBuckets) {
  const auto exits = run_ranks(GetParam(), [](int, CommOptions options) {
    options.group_of_one = true;
    const Comms comms = make_comms(options);
    ToyModel model(7, {11, 30, 2});
    const auto reducer = make_reducer(comms.gradients, model.parameters, model.names, options_of("c10d", true));
    std::vector<const void*> before, after;
    for (const auto& parameter : model.parameters) before.push_back(parameter.grad().data_ptr());
    for (int step = 0; step < 3; ++step) run_step(*reducer, *comms.gradients, model, {model.samples(6), 1});
    for (const auto& parameter : model.parameters) after.push_back(parameter.grad().data_ptr());
    EXPECT_EQ(before, after);
    reducer->zero_gradients();
    for (const auto& parameter : model.parameters) EXPECT_EQ(parameter.grad().abs().max().item<double>(), 0);
  });
  EXPECT_EQ(exits, all_succeed(GetParam()));
}

TEST(Reducer, InAWorldOfOneAParameterWithoutAGradientHasZeros) {
  const auto exits = run_ranks(1, [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    ToyModel model(4, {3, 2});
    const at::Tensor unused = at::ones({2}, at::kDouble).requires_grad_(true);
    const auto reducer =
        make_reducer(comms.gradients, {model.parameters[0], model.parameters[1], unused}, {"w", "b", "unused"}, {});
    for (int step = 0; step < 2; ++step) {
      reducer->zero_gradients();
      reducer->begin_micro_batch(true);
      torch::autograd::backward({model.residual(0, model.samples(2)).sum()}, {});
      reducer->finish();
      EXPECT_TRUE(at::equal(unused.grad(), at::zeros({2}, at::kDouble)));
      EXPECT_TRUE(at::equal(model.parameters[1].grad(), at::full({3}, 2.0, at::kDouble)));  // of this step only
    }
  });
  EXPECT_EQ(exits, all_succeed(1));
}

TEST_P(ReducerTest, ChannelsLastWeightsKeepTheirStrides) {
  const auto exits = run_ranks(GetParam(), [](int rank, const CommOptions& options) {
    const Comms comms = make_comms(options);
    for (const char* kind : {"c10d", "flat"}) {
      at::Tensor weight =
          wave({4, 3, 2, 2}, 1, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
      const auto reducer = make_reducer(comms.gradients, {weight}, {"weight"}, options_of(kind));
      for (int step = 0; step < 2; ++step) {
        reducer->zero_gradients();
        reducer->begin_micro_batch(true);
        torch::autograd::backward({(weight * wave({4, 3, 2, 2}, rank, at::kDouble)).sum()}, {});
        reducer->finish();
        at::Tensor expected = at::zeros({4, 3, 2, 2}, at::kDouble);
        for (int r = 0; r < options.world_size; ++r)
          expected += wave({4, 3, 2, 2}, r, at::kDouble) / options.world_size;
        EXPECT_LT(relative_difference(weight.grad(), expected), 1e-12) << kind;
        EXPECT_TRUE(weight.grad().is_contiguous(at::MemoryFormat::ChannelsLast)) << kind;
      }
    }
  });
  EXPECT_EQ(exits, all_succeed(GetParam()));
}

TEST(Reducer, BothKindsGiveTheSameBitsAtTwoRanks) {
  const auto exits = run_ranks(2, [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    std::vector<ToyModel> models;
    for (const auto& reducer_options : {options_of("c10d"), options_of("c10d", true), options_of("flat")}) {
      ToyModel& model = models.emplace_back(33, std::vector<int64_t>{50, 70, 9}, at::kFloat);
      const auto reducer = make_reducer(comms.gradients, model.parameters, model.names, reducer_options);
      for (int step = 0; step < 5; ++step) {
        run_step(*reducer, *comms.gradients, model, {model.samples(10, step), 3});
        descend(model, 0.01);
      }
    }
    for (const auto& model : models) {
      for (size_t i = 0; i < model.parameters.size(); ++i) {
        EXPECT_TRUE(at::equal(model.parameters[i].detach(), models[0].parameters[i].detach())) << model.names[i];
      }
    }
  });
  EXPECT_EQ(exits, all_succeed(2));
}

TEST(Reducer, SeveralDtypesGetTheirOwnBuckets) {
  const auto exits = run_ranks(2, [](int rank, const CommOptions& options) {
    const Comms comms = make_comms(options);
    for (const char* kind : {"c10d", "flat"}) {
      at::Tensor a = at::ones({3}, at::kDouble).requires_grad_(true),
                 b = at::ones({3}, at::kFloat).requires_grad_(true);
      const auto reducer = make_reducer(comms.gradients, {a, b}, {"a", "b"}, options_of(kind));
      EXPECT_EQ(reducer->layout().size(), 2u);
      reducer->zero_gradients();
      reducer->begin_micro_batch(true);
      torch::autograd::backward({(a.sum() + b.sum()) * (rank + 1)}, {});
      reducer->finish();
      EXPECT_TRUE(at::equal(a.grad(), at::full({3}, 1.5, at::kDouble))) << kind;
      EXPECT_TRUE(at::equal(b.grad(), at::full({3}, 1.5, at::kFloat))) << kind;
      EXPECT_EQ(reducer->all_reduce_count(), 2);
    }
  });
  EXPECT_EQ(exits, all_succeed(2));
}

TEST(Reducer, AParameterWithoutAGradientIsNamed) {
  const auto exits = run_ranks(2, [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    ToyModel model(4, {3, 2});
    at::Tensor unused = at::ones({2}, at::kDouble).requires_grad_(true);
    model.parameters.push_back(unused);
    model.names.push_back("orphan.weight");
    const auto reducer = make_reducer(comms.gradients, model.parameters, model.names, options_of("c10d"));
    const auto backward = [&](const at::Tensor& loss) {
      reducer->zero_gradients();
      reducer->begin_micro_batch(true);
      torch::autograd::backward({loss}, {});
      reducer->finish();
    };
    try {
      backward(model.summed_loss(model.samples(2)));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::kSpec);
      EXPECT_THAT(error.message, HasSubstr("orphan.weight"));
      EXPECT_THAT(error.message, ::testing::Not(HasSubstr("head")));
    }
  });
  EXPECT_EQ(exits, all_succeed(2));
}

TEST(Reducer, BackwardThatReachesNoParameterIsAnError) {
  const auto exits = run_ranks(2, [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    ToyModel model(4, {3, 2});
    const auto reducer = make_reducer(comms.gradients, model.parameters, model.names, options_of("c10d"));
    reducer->zero_gradients();
    reducer->begin_micro_batch(true);
    EXPECT_THROW(reducer->finish(), Error);
  });
  EXPECT_EQ(exits, all_succeed(2));
}

TEST(Reducer, UnknownKindIsAnError) {
  const auto exits = run_ranks(2, [](int, const CommOptions& options) {
    const Comms comms = make_comms(options);
    ToyModel model(4, {3});
    EXPECT_THROW(make_reducer(comms.gradients, model.parameters, model.names, options_of("flatt")), Error);
  });
  EXPECT_EQ(exits, all_succeed(2));
}

// c10d notes each gradient for a rebuild, in vectors that double: without reset_state they would take 1.6 MB more
// between steps 320 and 660. Its flight recorder is kept small: it takes 1 kB an operation until it holds 2000.
TEST(Reducer, MemoryDoesNotGrowWithoutARebuild) {
  const auto train_and_measure = [](int, CommOptions options) {
    ::setenv("TORCH_FR_BUFFER_SIZE", "10", 1);
    options.group_of_one = true;
    const Comms comms = make_comms(options);
    std::vector<at::Tensor> parameters;
    for (int i = 0; i < 100; ++i) parameters.push_back(at::ones({1}).requires_grad_(true));
    ReducerOptions reducer_options;
    reducer_options.deterministic = true;
    const std::vector<std::string> names(parameters.size(), "p");
    const auto reducer = make_reducer(comms.gradients, parameters, names, reducer_options);
    const auto train = [&](int steps) {
      for (int step = 0; step < steps; ++step) {
        reducer->zero_gradients();
        reducer->begin_micro_batch(true);
        torch::autograd::backward({at::cat(parameters).sum()}, {});
        reducer->finish();
      }
      const struct mallinfo2 heap = ::mallinfo2();
      return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
    };
    const int64_t before = train(320);
    EXPECT_LT(train(340) - before, 100'000);
  };
  EXPECT_EQ(run_ranks(1, train_and_measure, std::chrono::seconds(60)), all_succeed(1));
}

}  // namespace
}  // namespace gputrain::test
