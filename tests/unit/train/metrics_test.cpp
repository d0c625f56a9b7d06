#include "train/metrics.h"

#include <gtest/gtest.h>

#include "util/error.h"

namespace gputrain {
namespace {

TEST(Metrics, AreFoundByNameAndTheAverageIsWhatCounts) {
  Metrics metrics{{{"loss", 0.5}, {"accuracy", 0.75}}, 4};
  EXPECT_EQ(metrics.at("loss"), 0.5);
  EXPECT_EQ(metrics.judged("accuracy"), 0.75);
  metrics.add_average({{{"loss", 0.25}, {"accuracy", 0.875}}, 4});
  EXPECT_EQ(metrics.at("accuracy"), 0.75);
  EXPECT_EQ(metrics.at("ema_accuracy"), 0.875);
  EXPECT_EQ(metrics.judged("accuracy"), 0.875);
  EXPECT_EQ(metrics.samples, 4);
}

TEST(Metrics, OneThatWasNotMeasuredIsAnErrorThatListsTheOthers) {
  const Metrics metrics{{{"loss", 0.5}, {"accuracy", 0.75}}, 4};
  try {
    metrics.at("miou");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kSpec);
    EXPECT_EQ(error.hint, "measured are loss and accuracy");
  }
}

}  // namespace
}  // namespace gputrain
