#include "spec/catalog/catalog.h"

#include "data/transforms.h"
#include "unit/data/data_files.h"

namespace gputrain {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

// What a spec may name is what the runtime has, and nothing else.
TEST(DataCatalog, FormatsAndTransformsAreTheRuntimes) {
  EXPECT_THAT(format_names(), UnorderedElementsAreArray(names_of(CatalogKind::kFormat)));
  EXPECT_THAT(transform_names(), UnorderedElementsAreArray(names_of(CatalogKind::kTransform)));
}

Json example_of(const CatalogArg& arg) {
  if (arg.fallback) return *arg.fallback;
  switch (arg.type) {
    case ArgType::kInt:
      return 4;
    case ArgType::kFloat:
      return 0.5;
    case ArgType::kIntList:
      return {4};
    case ArgType::kFloatList:
      return {0.5};
    case ArgType::kChoice:
      return arg.words.front();
    case ArgType::kArray:
      return {{"path", "/nonexistent"}, {"shape", {4}}, {"dtype", "uint8"}, {"offset", 0}};
    default:
      return "/nonexistent";
  }
}

Json arguments_of(const CatalogEntry& entry) {
  Json args = Json::object();
  for (const CatalogArg& arg : entry.args) args[arg.name] = example_of(arg);
  return args;
}

// Each argument of the catalog is taken by the factory, under its name and with its type; one that is not there is
// refused.
TEST(DataCatalog, TransformsTakeTheirArguments) {
  for (const std::string& name : transform_names()) {
    const CatalogEntry* entry = find_entry(CatalogKind::kTransform, name);
    ASSERT_NE(entry, nullptr) << name;
    const SampleSpec input{{1, 8, 8}, name == "to_tensor" ? at::kByte : at::kFloat};
    EXPECT_NO_THROW(make_pipeline({{name, arguments_of(*entry)}}, input, {})) << name;
    Json surplus = arguments_of(*entry);
    surplus["surplus"] = 1;
    EXPECT_THAT(test::error_of([&] {
                  make_pipeline({{name, surplus}}, input, {});
                }).message,
                HasSubstr("'surplus'"))
        << name;
  }
}

TEST(DataCatalog, FormatsTakeTheirArguments) {
  for (const std::string& name : format_names()) {
    const Json args = arguments_of(*find_entry(CatalogKind::kFormat, name));
    if (name == "synthetic") {
      EXPECT_NO_THROW(open_source({name, args}, "data.train"));
      continue;
    }
    const Task task = name == "tokens" ? Task::kLanguageModel : Task::kClassification;
    const Error error = test::error_of([&] {
      open_source({name, args}, "data.train", {.task = task, .classes = {}, .ignore_index = {}});
    });
    EXPECT_EQ(error.kind, ErrorKind::kData) << name;  // past the arguments: the file is missing
    EXPECT_EQ(error.where, "/nonexistent") << name;
  }
}

}  // namespace
}  // namespace gputrain
