#pragma once
// Fields and catalog entries in words, shared by explain and init. Internal to spec.
#include <string>
#include <string_view>

#include "spec/catalog/catalog.h"
#include "spec/fields.h"

namespace gputrain {

std::string expected_text(const Field& field);     // "an integer of at least 1 (samples)"
std::string expected_text(const CatalogArg& arg);  // also for kArray
std::string fallback_text(const Field& field);     // "256", "none", "required"
std::string fallback_text(const CatalogArg& arg);
std::string_view first_sentence(std::string_view help);

}  // namespace gputrain
