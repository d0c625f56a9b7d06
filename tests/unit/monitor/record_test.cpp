#include "monitor/record.h"

#include <gtest/gtest.h>

namespace gputrain {
namespace {

TEST(StepRecordJson, HasKindFirstAndEveryField) {
  StepRecord record;
  record.step = 12;
  record.updates = 11;
  record.epoch = 0.25;
  record.loss = 0.5;
  record.lr = 1e-3;
  record.grad_norm = 2;
  record.samples_per_s = 1000;
  record.data_wait_s = 0.125;
  record.step_s = 0.75;
  record.scale = 65536;
  record.skipped = 1;
  record.forward_s = 0.25;
  record.backward_s = 0.5;
  record.exposed_communication_s = 0.0625;
  record.optimizer_s = 0.03125;
  record.other_s = 0.015625;
  record.checkpoint_s = 2;
  record.mfu = 0.375;
  EXPECT_EQ(dump_line(to_json(record)),
            R"({"kind":"step","step":12,"updates":11,"epoch":0.25,"loss":0.5,"lr":0.001,"grad_norm":2.0,)"
            R"("samples_per_s":1000.0,"data_wait_s":0.125,"step_s":0.75,"scale":65536.0,"skipped":1,)"
            R"("forward_s":0.25,"backward_s":0.5,"exposed_communication_s":0.0625,"optimizer_s":0.03125,)"
            R"("other_s":0.015625,"checkpoint_s":2.0,"mfu":0.375})");
}

TEST(StepRecordJson, AnUnknownPeakIsNull) {
  StepRecord record;
  EXPECT_TRUE(to_json(record).at("mfu").is_null());
  EXPECT_EQ(step_record_from_json(to_json(record)).mfu, std::nullopt);
  record.mfu = 0.5;
  EXPECT_EQ(step_record_from_json(to_json(record)).mfu, 0.5);
}

TEST(StepRecordJson, TheSplitSurvivesTheRoundTrip) {
  StepRecord record;
  record.forward_s = 1;
  record.backward_s = 2;
  record.exposed_communication_s = 3;
  record.optimizer_s = 4;
  record.other_s = 5;
  record.checkpoint_s = 6;
  const StepRecord back = step_record_from_json(to_json(record));
  EXPECT_EQ(back.forward_s, 1);
  EXPECT_EQ(back.backward_s, 2);
  EXPECT_EQ(back.exposed_communication_s, 3);
  EXPECT_EQ(back.optimizer_s, 4);
  EXPECT_EQ(back.other_s, 5);
  EXPECT_EQ(back.checkpoint_s, 6);
}

TEST(StepRecordJson, NotFiniteSurvivesTheRoundTrip) {
  StepRecord record;
  record.loss = NAN;
  record.grad_norm = INFINITY;
  const Json json = to_json(record);
  EXPECT_EQ(json["loss"], "nan");
  EXPECT_EQ(json["grad_norm"], "inf");
  const StepRecord back = step_record_from_json(parse_json(dump_line(json), "test"));
  EXPECT_TRUE(std::isnan(back.loss));
  EXPECT_EQ(back.grad_norm, INFINITY);
}

TEST(StepRecordJson, ReadsAnObjectOfAnotherShapeWithoutThrowing) {
  const StepRecord record = step_record_from_json({{"step", "twelve"}, {"loss", {1, 2}}});
  EXPECT_EQ(record.step, 0);
  EXPECT_TRUE(std::isnan(record.loss));
  EXPECT_TRUE(std::isnan(record.lr));
}

TEST(EvalRecordJson, PutsMetricsBesideTheLoss) {
  EvalRecord record;
  record.step = 235;
  record.loss = NAN;
  record.metrics = {{"accuracy", 0.5}};
  record.samples = 10000;
  record.seconds = 1.5;
  EXPECT_EQ(dump_line(to_json(record)),
            R"({"kind":"eval","step":235,"loss":"nan","accuracy":0.5,"samples":10000,"seconds":1.5})");
}

TEST(CheckpointRecordJson, NamesWhereAndWhy) {
  EXPECT_EQ(
      dump_line(to_json(CheckpointRecord{14, "checkpoints/step-00000014", 2048, 0.5, "every"})),
      R"({"kind":"checkpoint","step":14,"path":"checkpoints/step-00000014","bytes":2048,"seconds":0.5,"why":"every"})");
}

TEST(WarningRecord, SurvivesForeignBytes) {
  EXPECT_EQ(dump_line(warning_record("a\xff\n")), "{\"kind\":\"warning\",\"text\":\"a\xEF\xBF\xBD\\n\"}");
}

}  // namespace
}  // namespace gputrain
