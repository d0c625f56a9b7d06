#include "spec/explain.h"

#include "spec/catalog/catalog.h"
#include "spec/fields.h"
#include "spec_testing.h"

namespace gputrain {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Explain, AKeySaysTypeDefaultHelpAndResume) {
  EXPECT_EQ(explain("train.micro_batch"),
            "train.micro_batch: auto or an integer of at least 1 (samples)\n"
            "  default: auto\n"
            "  Samples of one forward and backward pass on one rank; less memory, the same global batch. auto:\n"
            "  the rank's whole share.\n"
            "  may change when a run is continued; the change is listed\n");
  EXPECT_EQ(explain("train.micro-batch"), explain("train.micro_batch"));
}

TEST(Explain, ArgumentsSectionsAndCatalogNames) {
  EXPECT_THAT(explain("optimizer.weight_decay"),
              StartsWith("optimizer.weight_decay of adamw: a number of at least 0\n  default: 0.01\n"));
  EXPECT_THAT(explain("optimizer.weight_decay"), HasSubstr("of sgd: a number of at least 0\n  default: 0.0\n"));
  EXPECT_THAT(explain("model.args.hidden"), HasSubstr("default: [256, 256]"));
  EXPECT_THAT(explain("data.train.images"), HasSubstr("data.train.images of idx: a path\n  default: required\n"));
  EXPECT_THAT(explain("output"), HasSubstr("Relative to the working directory"));
  EXPECT_THAT(explain("train"), HasSubstr("train.global_batch"));
  EXPECT_THAT(explain("model"), HasSubstr("resnet50"));
  try {
    explain("optimzer.lr");
    ADD_FAILURE() << "explained";
  } catch (const Error& error) {
    EXPECT_THAT(error.hint, HasSubstr("did you mean optimizer.lr?"));
  }
  EXPECT_THAT(explain("adamw"), HasSubstr("betas: a list of 2 numbers from 0 to below 1; default: [0.9, 0.999]"));
  EXPECT_THAT(explain("to_tensor"), HasSubstr("no arguments"));
}

TEST(Explain, EverythingThatExistsCanBeExplained) {
  const std::string all = explain_all();
  for (const auto& field : fields()) {
    EXPECT_THAT(all, HasSubstr("  " + std::string(field.key) + " ")) << field.key;
    const std::string text = explain(field.key);
    EXPECT_THAT(text, HasSubstr("default: ")) << field.key;
    EXPECT_FALSE(field.help.empty()) << field.key;
    const size_t dot = field.key.rfind('.');
    if (dot != std::string_view::npos) {
      EXPECT_FALSE(section_help(field.key.substr(0, dot)).empty()) << field.key;
    }
  }
  for (const auto& entry : catalog()) {
    EXPECT_THAT(explain(entry.name), HasSubstr(entry.name));
    for (const auto& arg : entry.args) EXPECT_THAT(explain(entry.name), HasSubstr(arg.name)) << entry.name;
  }
}

TEST(Explain, AnUnknownKeySuggestsTheNearest) {
  try {
    explain("train.epoch");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::kUsage);
    EXPECT_EQ(error.render(), "there is no key \"train.epoch\" to explain\nhint: did you mean train.epochs?");
  }
  EXPECT_THROW(explain(""), Error);
  EXPECT_THROW(explain("zzzzzzzzz"), Error);
}

TEST(Explain, NoLineIsEndless) {
  for (const auto& field : fields()) {
    std::istringstream lines(explain(field.key));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 130u) << line;
  }
}

}  // namespace
}  // namespace gputrain
