#include "spec/catalog/catalog.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/fields.h"

namespace gputrain {
namespace {

using ::testing::ElementsAre;

TEST(Catalog, HoldsThisVersionsNames) {
  EXPECT_THAT(names_of(CatalogKind::kModel),
              ElementsAre("mlp", "small_cnn", "resnet18", "resnet34", "resnet50", "resnet101", "vit_b_16", "vit_s_16",
                          "gpt", "unet2d", "unet3d"));
  EXPECT_THAT(names_of(CatalogKind::kTransform),
              ElementsAre("random_horizontal_flip", "random_crop", "to_tensor", "normalize"));
  EXPECT_THAT(names_of(CatalogKind::kOptimizer), ElementsAre("adamw", "adam", "sgd", "lamb", "lion"));
  EXPECT_THAT(names_of(CatalogKind::kSchedule),
              ElementsAre("constant", "linear", "cosine", "cosine_restarts", "step", "multistep", "polynomial",
                          "inverse_sqrt", "one_cycle", "wsd"));
  EXPECT_THAT(names_of(CatalogKind::kMetric),
              ElementsAre("accuracy", "top_k_accuracy", "loss", "perplexity", "miou", "dice", "mae", "rmse"));
  EXPECT_THAT(names_of(CatalogKind::kFormat), ElementsAre("idx", "raw", "tokens", "synthetic"));
}

TEST(Catalog, Properties) {
  EXPECT_TRUE(find_entry(CatalogKind::kModel, "resnet18")->has_batch_norm);
  EXPECT_FALSE(find_entry(CatalogKind::kModel, "small_cnn")->has_batch_norm);
  EXPECT_TRUE(find_entry(CatalogKind::kModel, "small_cnn")->has_dropout);
  EXPECT_TRUE(find_entry(CatalogKind::kModel, "unet2d")->has_batch_norm);  // with norm: batch
  EXPECT_TRUE(find_entry(CatalogKind::kMetric, "accuracy")->larger_is_better);
  EXPECT_FALSE(find_entry(CatalogKind::kMetric, "loss")->larger_is_better);
  EXPECT_EQ(find_entry(CatalogKind::kModel, "adamw"), nullptr);
}

TEST(Catalog, WhatAModelMakesOfItsSamples) {
  for (const auto& name : names_of(CatalogKind::kModel)) {
    const ModelOutput expected = name == "gpt"              ? ModelOutput::kTokens
                                 : name.starts_with("unet") ? ModelOutput::kMask
                                                            : ModelOutput::kVector;
    EXPECT_EQ(find_entry(CatalogKind::kModel, name)->output, expected) << name;
  }
}

bool fits(const CatalogArg& arg, double value) {
  return (!arg.least || (arg.above ? value > *arg.least : value >= *arg.least)) &&
         (!arg.most || (arg.below ? value < *arg.most : value <= *arg.most));
}

TEST(Catalog, DefaultsAreOfTheirTypeAndInRange) {
  for (const auto& entry : catalog()) {
    std::set<std::string> names;
    EXPECT_FALSE(entry.help.empty()) << entry.name;
    for (const auto& arg : entry.args) {
      const std::string which = entry.name + "." + arg.name;
      EXPECT_TRUE(names.insert(arg.name).second) << which;
      EXPECT_FALSE(arg.help.empty()) << which;
      EXPECT_EQ(arg.name.find('-'), std::string::npos) << which;
      if (!arg.fallback) continue;
      const Json values = arg.fallback->is_array() ? *arg.fallback : Json::array({*arg.fallback});
      if (arg.length > 0) {
        EXPECT_EQ(values.size(), static_cast<size_t>(arg.length)) << which;
      }
      for (const auto& value : values) {
        if (value.is_string() && std::ranges::count(arg.words, value.get<std::string>()) > 0) continue;
        const bool integer = arg.type == ArgType::kInt || arg.type == ArgType::kIntList;
        const bool number = arg.type == ArgType::kFloat || arg.type == ArgType::kFloatList;
        if (integer) {
          EXPECT_TRUE(value.is_number_integer()) << which;
        }
        if (number) {
          EXPECT_TRUE(value.is_number_float()) << which;
        }
        if (integer || number) {
          EXPECT_TRUE(fits(arg, value.get<double>())) << which;
        }
        if (arg.type == ArgType::kBool) {
          EXPECT_TRUE(value.is_boolean()) << which;
        }
      }
    }
  }
}

TEST(Catalog, InlineArgumentsDoNotClashWithFields) {
  for (const auto& [kind, prefix] :
       {std::pair{CatalogKind::kOptimizer, "optimizer."}, {CatalogKind::kSchedule, "schedule."}}) {
    for (const auto& entry : catalog()) {
      if (entry.kind != kind) continue;
      for (const auto& arg : entry.args) EXPECT_EQ(find_field(prefix + arg.name), nullptr) << arg.name;
    }
  }
  for (const auto& entry : catalog()) {
    if (entry.kind != CatalogKind::kFormat) continue;
    for (const auto& arg : entry.args) EXPECT_NE(arg.name, "format");
  }
}

TEST(Fields, AreUniqueAndSpeltForOverrides) {
  std::set<std::string_view> keys;
  for (const auto& field : fields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_EQ(field.key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_."), std::string_view::npos) << field.key;
  }
  EXPECT_EQ(find_field("train"), nullptr);
  EXPECT_EQ(find_field(""), nullptr);
}

TEST(Dtypes, IntegersFirst) {
  for (const char* name : {"uint8", "int8", "int16", "int32", "int64"}) EXPECT_TRUE(is_integer_dtype(name)) << name;
  for (const char* name : {"float16", "bfloat16", "float32", "float64", "int", ""})
    EXPECT_FALSE(is_integer_dtype(name)) << name;
  EXPECT_EQ(array_dtypes().size(), 9u);
}

TEST(Shapes, CountElementsOrRefuse) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 64, 64}), 12288);
  EXPECT_EQ(element_count({3, 0}), std::nullopt);
  EXPECT_EQ(element_count({-1}), std::nullopt);
  EXPECT_EQ(element_count({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
}

}  // namespace
}  // namespace gputrain
