// FORMAT.md's worked example is what the writer writes.
#include "ckpt/checkpoint.h"
#include "support/temp_dir.h"
#include "unit/ckpt/ckpt_testing.h"

namespace gputrain {
namespace {

TEST(Format, TheManifestOfTheExampleIsTheWritersOwn) {
  const testing::TempDir dir;
  FileSystem& fs = real_file_system();
  CheckpointOptions options = testing::options_for(dir / "checkpoints");
  options.run_id = "20261130-7f3a";
  const at::Tensor weight = at::arange(6, at::kFloat).view({2, 3});
  const CheckpointContent content{1200,
                                  {{"fc1.weight", weight}},
                                  {{"fc1.weight/exp_avg", at::zeros_like(weight)}},
                                  {{"step", 1200}, {"updates", 1198}}};
  const std::string path = CheckpointStore(fs, options).save(content, std::nullopt).path;
  const std::string manifest = fs.read(path + "/manifest.json");
  const std::string page = fs.read(std::string(GPUTRAIN_SOURCE_DIR) + "/src/ckpt/FORMAT.md");
  EXPECT_NE(page.find("```\n" + manifest + "```"), page.npos) << "the example must be:\n" << manifest;
}

}  // namespace
}  // namespace gputrain
