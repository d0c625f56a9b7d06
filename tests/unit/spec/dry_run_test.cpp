#include "spec/dry_run.h"

#include "unit/spec/spec_testing.h"
#include "util/text.h"

namespace gputrain {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

RunPlan plan_of(const Spec& spec) {
  return resolve(spec, {.cores = 4, .gpus = 0, .cuda_library = false, .cwd = "/w"}, nullptr);
}

TEST(DryRun, ShowsRanksSharesAndOrigins) {
  const Spec spec = parse_with({"train.global_batch=17", "train.micro_batch=4", "launch.hosts=[local, local]"});
  std::vector<Notice> notices;
  const RunPlan plan = resolve(spec, {.cores = 4, .cwd = "/w"}, &notices);
  const std::string text = render_dry_run(plan, spec, notices);
  EXPECT_THAT(text, StartsWith("demo: 2 ranks on 2 agents, gloo, a global batch of 17 samples\n"
                               "output: /w/runs/demo\n\n"
                               "rank  host             device  threads  samples  of the batch  micro-batches\n"
                               "0     local (agent 1)  cpu     2        8        [0, 8)        2 x 4\n"
                               "1     local (agent 2)  cpu     2        9        [8, 17)       2 x 4 + 1\n\n"
                               "notice: "));
  EXPECT_THAT(text, ContainsRegex("train.global_batch +--set +17\n"));
  EXPECT_THAT(text, ContainsRegex("train.epochs +a.yaml:7 +2\n"));
  EXPECT_THAT(text, ContainsRegex("launch.nproc_per_node +default +auto = 1, 1\n"));
  EXPECT_THAT(text, ContainsRegex("launch.backend +default +auto = gloo\n"));
}

TEST(DryRun, AsJson) {
  const Spec spec = parse_with({"train.global_batch=17"});
  std::vector<Notice> notices;
  const RunPlan plan = resolve(spec, {.cores = 64, .gpus = 2, .cuda_library = true}, &notices);
  const Json json = dry_run_json(plan, spec, notices);
  EXPECT_EQ(json["ranks"][1].dump(),
            R"({"rank":1,"host":"local","device":"cuda:1","threads":32,"begin":8,"end":17,"micro_batches":[9]})");
  EXPECT_EQ(json["notices"][0]["word"], "uneven_shares");
  EXPECT_EQ(json["plan"], to_json(plan));
  EXPECT_EQ(json["settings"][0].dump(), R"({"key":"name","value":"demo","origin":"a.yaml:1"})");
}

// What was given, and what was decided here; nothing that was left at a default that says all.
TEST(ChosenSettings, AreTheGivenAndTheDecidedOnes) {
  const Spec spec = parse_with({"launch.nproc_per_node=2", "train.clip_grad_norm=1.5"});
  const std::string table = render_chosen_settings(spec, plan_of(spec));
  std::vector<std::string> keys;
  for (const auto& line : split(table, '\n')) keys.push_back(line.substr(0, line.find(' ')));
  EXPECT_THAT(keys, ::testing::ElementsAre("key", "name", "seed", "launch.nproc_per_node", "launch.backend",
                                           "launch.omp_threads", "model.name", "model.args.hidden", "data.train",
                                           "data.workers", "data.pin_memory", "train.epochs", "train.global_batch",
                                           "train.micro_batch", "train.clip_grad_norm", "optimizer.name",
                                           "optimizer.lr", "evaluate.every", "log.every", ""));
  EXPECT_THAT(table, ::testing::ContainsRegex("train.clip_grad_norm +--set +1.5\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("train.micro_batch +default +auto = 8, the whole share\n"));
  EXPECT_THAT(table, ::testing::ContainsRegex("evaluate.every +default +auto = never\n"));
}

TEST(ChosenSettings, ANameThatReadsAutoIsAName) {
  const Spec spec = parse(good_with("name: demo", "name: auto"));
  EXPECT_THAT(render_chosen_settings(spec, plan_of(spec)), ::testing::ContainsRegex("name +a.yaml:1 +auto\n"));
  EXPECT_THAT(render_dry_run(plan_of(spec), spec, {}), ::testing::ContainsRegex("name +a.yaml:1 +auto\n"));
}

}  // namespace
}  // namespace gputrain
