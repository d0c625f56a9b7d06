#include "spec/catalog/catalog.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "spec/catalog/entries.h"
#include "util/error.h"

namespace gputrain {
namespace {

constexpr int kIntegerDtypes = 5;
const std::array<std::string, 9>& dtype_table() {
  static const std::array<std::string, 9> table = {"uint8",    "int8",    "int16",   "int32",  "int64",
                                                   "bfloat16", "float16", "float32", "float64"};
  return table;
}

std::vector<CatalogEntry> all_entries() {
  std::vector<CatalogEntry> all;
  for (auto part :
       {model_entries, transform_entries, optimizer_entries, schedule_entries, metric_entries, format_entries}) {
    std::ranges::move(part(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::span<const CatalogEntry> catalog() {
  static const std::vector<CatalogEntry> entries = all_entries();
  return entries;
}

const CatalogEntry* find_entry(CatalogKind kind, std::string_view name) {
  for (const auto& entry : catalog()) {
    if (entry.kind == kind && entry.name == name) return &entry;
  }
  return nullptr;
}

std::vector<std::string> names_of(CatalogKind kind) {
  std::vector<std::string> names;
  for (const auto& entry : catalog()) {
    if (entry.kind == kind) names.push_back(entry.name);
  }
  return names;
}

std::string_view to_string(CatalogKind kind) {
  switch (kind) {
    case CatalogKind::kModel:
      return "model";
    case CatalogKind::kTransform:
      return "transform";
    case CatalogKind::kOptimizer:
      return "optimizer";
    case CatalogKind::kSchedule:
      return "schedule";
    case CatalogKind::kMetric:
      return "metric";
    case CatalogKind::kFormat:
      return "format";
  }
  GP_CHECK(false, "unknown catalog kind");
}

std::span<const std::string> array_dtypes() {
  return dtype_table();
}

bool is_integer_dtype(std::string_view dtype) {
  const auto integers = array_dtypes().first(kIntegerDtypes);
  return std::ranges::find(integers, dtype) != integers.end();
}

std::optional<int64_t> element_count(const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 48;
  int64_t count = 1;
  for (int64_t dimension : shape) {
    if (dimension < 1 || dimension > kMost / count) return std::nullopt;
    count *= dimension;
  }
  return count;
}

}  // namespace gputrain
