#pragma once
// The parts that catalog() is put together from: one function a kind.
#include <vector>

#include "spec/catalog/catalog.h"

namespace gputrain {

std::vector<CatalogEntry> model_entries();
std::vector<CatalogEntry> transform_entries();
std::vector<CatalogEntry> optimizer_entries();
std::vector<CatalogEntry> schedule_entries();
std::vector<CatalogEntry> metric_entries();
std::vector<CatalogEntry> format_entries();

}  // namespace gputrain
