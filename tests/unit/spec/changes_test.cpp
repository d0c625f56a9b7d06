#include "spec/changes.h"

#include "unit/spec/spec_testing.h"

namespace gputrain {
namespace {

std::string echoed(const std::vector<std::string>& sets) {
  return to_yaml(parse_with(sets));
}

TEST(SpecChanges, AreNamedByTheKeysThatPeopleWrite) {
  const Json changes =
      spec_changes(echoed({"log.every=5 steps"}),
                   echoed({"optimizer.lr=0.5", "log.every=1 epoch", "data.transforms.train=[random_horizontal_flip]"}));
  EXPECT_EQ(changes,
            Json::array({{{"key", "data.transforms.train"},
                          {"from", Json::array()},
                          {"to", Json::array({Json{{"name", "random_horizontal_flip"}, {"args", {{"p", 0.5}}}}})}},
                         {{"key", "optimizer.lr"}, {"from", 0.001}, {"to", 0.5}},
                         {{"key", "log.every"}, {"from", "5 steps"}, {"to", "1 epoch"}}}));
  EXPECT_EQ(changes_text(changes),
            "data.transforms.train [] -> [{random_horizontal_flip: {p: 0.5}}], optimizer.lr 0.001 -> 0.5, log.every 5 "
            "steps -> 1 epoch");
}

TEST(SpecChanges, AnotherOptimizerBringsAndTakesArguments) {
  const std::string text = changes_text(spec_changes(echoed({}), echoed({"optimizer={name: sgd, lr: 0.001}"})));
  EXPECT_THAT(text, ::testing::HasSubstr("optimizer.name adamw -> sgd"));
  EXPECT_THAT(text, ::testing::HasSubstr("optimizer.momentum none -> "));
  EXPECT_THAT(text, ::testing::HasSubstr("optimizer.betas [0.9, 0.999] -> none"));
}

TEST(SpecChanges, NothingWhereNothingChangedOrTheOldOneIsUnreadable) {
  EXPECT_EQ(spec_changes(echoed({}), echoed({})), Json::array());
  EXPECT_EQ(spec_changes("colour: red\n", echoed({})), Json::array());
  EXPECT_EQ(spec_changes("", echoed({})), Json::array());
  EXPECT_EQ(changes_text(Json::array()), "");
}

}  // namespace
}  // namespace gputrain
