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
  EXPECT_EQ(dump_line(to_json(record)),
            R"({"kind":"step","step":12,"updates":11,"epoch":0.25,"loss":0.5,"lr":0.001,"grad_norm":2.0,)"
            R"("samples_per_s":1000.0,"data_wait_s":0.125,"step_s":0.75,"scale":65536.0,"skipped":1})");
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
