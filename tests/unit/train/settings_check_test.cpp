#include "train/settings_check.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>

#include "support/run_ranks.h"
#include "train/precision.h"
#include "util/error.h"

namespace gputrain {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string refusal(Comm& comm, const std::vector<std::string>& settings) {
  try {
    check_same_arithmetic(comm, settings, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
    return error.message;
  }
  return "";
}

TEST(NumericSettings, AreLibTorchsOwn) {
  RunPlan plan;
  plan.train.precision = Precision::kTf32;
  set_up_precision(Precision::kTf32, false);
  EXPECT_THAT(numeric_settings(plan), Contains("TF32 in matrix products on"));
  EXPECT_THAT(numeric_settings(plan), Contains("precision tf32"));
  set_up_precision(Precision::kFp32, true);
  EXPECT_THAT(numeric_settings(plan), Contains("TF32 in matrix products off"));
  EXPECT_THAT(numeric_settings(plan), Contains("deterministic on"));
  set_up_precision(Precision::kFp32, false);
  EXPECT_THAT(numeric_environment("cpu"), Contains("isa " + at::get_cpu_capability()));
}

// One rank's process has another switch than the plan says, as an environment variable on one host would make it.
TEST(Trap42FlagsDifferBetweenRanks, EveryRankRefusesAndNamesTheFlag) {
  EXPECT_EQ(test::run_ranks(3,
                            [](int rank, const CommOptions& options) {
                              const Comms comms = make_comms(options);
                              set_up_precision(Precision::kFp32, false);
                              if (rank == 2) at::globalContext().setAllowTF32CuDNN(true);
                              EXPECT_EQ(refusal(*comms.control, numeric_settings(RunPlan{})),
                                        "a setting that changes numbers differs between the ranks: rank 2 has `TF32 in "
                                        "convolutions on`, rank 0 has `TF32 in convolutions off`");
                            }),
            test::all_succeed(3));
}

TEST(NumericVariables, AnEmptyOneIsNotAMissingOne) {
  EXPECT_EQ(variable_line("X", nullptr), "X is not set");
  EXPECT_EQ(variable_line("X", ""), "X=");
  EXPECT_EQ(variable_line("X", "a\nb"), "X=a\\x0ab");
}

// What cuBLAS reads by itself, no switch of LibTorch shows.
TEST(Trap42FlagsDifferBetweenRanks, AVariableThatTheLibrariesReadIsNamedInTheRemedy) {
  EXPECT_EQ(test::run_ranks(2,
                            [](int rank, const CommOptions& options) {
                              const Comms comms = make_comms(options);
                              std::vector<std::string> settings = numeric_settings(RunPlan{});
                              for (const std::string name : kNumericVariables)
                                settings.push_back(
                                    variable_line(name, rank == 1 && name == "NVIDIA_TF32_OVERRIDE" ? "0" : nullptr));
                              try {
                                check_same_arithmetic(*comms.control, settings, {});
                                ADD_FAILURE() << "no error";
                              } catch (const Error& error) {
                                EXPECT_EQ(error.kind, ErrorKind::kEnvironment);
                                EXPECT_THAT(error.message, HasSubstr("rank 1 has `NVIDIA_TF32_OVERRIDE=0`, rank 0 has "
                                                                     "`NVIDIA_TF32_OVERRIDE is not set`"));
                                EXPECT_THAT(error.hint, HasSubstr("set the environment variable NVIDIA_TF32_OVERRIDE "
                                                                  "to the same value on every host"));
                              }
                            }),
            test::all_succeed(2));
}

TEST(Trap42FlagsDifferBetweenRanks, EqualOnesPass) {
  EXPECT_EQ(test::run_ranks(2,
                            [](int, const CommOptions& options) {
                              const Comms comms = make_comms(options);
                              EXPECT_EQ(check_same_arithmetic(*comms.control, numeric_settings(RunPlan{}),
                                                              numeric_environment("cpu")),
                                        "");
                            }),
            test::all_succeed(2));
}

TEST(Trap42FlagsDifferBetweenRanks, AnotherMachineIsANotice) {
  EXPECT_EQ(
      test::run_ranks(2,
                      [](int rank, const CommOptions& options) {
                        const Comms comms = make_comms(options);
                        const std::vector<std::string> machine{rank == 0 ? "isa AVX512" : "isa AVX2", "threads 1"};
                        EXPECT_THAT(check_same_arithmetic(*comms.control, {}, machine),
                                    HasSubstr("rank 1 has `isa AVX2`, rank 0 has `isa AVX512`"));
                      }),
      test::all_succeed(2));
}

}  // namespace
}  // namespace gputrain
