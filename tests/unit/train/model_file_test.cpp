#include "train/model_file.h"

#include <fstream>

#include <gmock/gmock.h>

#include "dist/comm_single.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

// Rank r's file holds `bytes[r]`; as a plug-in or a TorchScript file. The error's text, "" = none.
std::string told(Comm& comm, const std::string& directory, const std::vector<std::string>& bytes, bool script) {
  ModelPlan plan;
  std::string& path = script ? plan.torchscript : plan.plugin;
  path = directory + "/" + std::to_string(comm.rank());
  std::ofstream(path, std::ios::binary) << bytes[static_cast<size_t>(comm.rank())];
  try {
    check_same_model_file(comm, model_file_mark(real_file_system(), plan), plan);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kData);
    return error.where + ": " + error.message + " | " + error.hint;
  }
  return "";
}

TEST(ModelFile, AnotherFileOnOneRankIsRefusedOnAll) {
  const TempDir directory;
  EXPECT_EQ(test::run_ranks(2,
                            [&](int, const CommOptions& options) {
                              const Comms comms = make_comms(options);
                              const std::string text = told(*comms.control, directory.path(), {"same", "sane"}, false);
                              EXPECT_THAT(text, HasSubstr("model.plugin: "));
                              EXPECT_THAT(text, HasSubstr("differs between the ranks: rank 1 has `4 bytes, XXH3 "));
                              EXPECT_THAT(text, HasSubstr("copy the same file to every host"));
                              EXPECT_THAT(told(*comms.control, directory.path(), {"same", "same, longer"}, true),
                                          HasSubstr("model.torchscript: "));
                            }),
            test::all_succeed(2));
}

TEST(ModelFile, TheSameBytesPass) {
  const TempDir directory;
  EXPECT_EQ(test::run_ranks(2,
                            [&](int, const CommOptions& options) {
                              const Comms comms = make_comms(options);
                              EXPECT_EQ(told(*comms.control, directory.path(), {"same", "same"}, true), "");
                            }),
            test::all_succeed(2));
}

TEST(ModelFile, IsNotReadWhereThereIsNothingToCompare) {
  ModelPlan plan;
  plan.plugin = "/no/such/file";
  const auto alone = make_single_comm();
  EXPECT_NO_THROW(check_same_model_file(*alone, "what no other rank has", plan));
  EXPECT_EQ(model_file_mark(real_file_system(), ModelPlan{}), "") << "a model of the catalog";
}

}  // namespace
}  // namespace gputrain
