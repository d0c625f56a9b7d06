#pragma once
// JSON for the whole program. Objects keep insertion order, so files are the same bytes each time they are written.
#include <cmath>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace gputrain {

using Json = nlohmann::ordered_json;

// JSON has no NaN or infinity: they become the strings "nan", "inf", "-inf" (C63 of the field cases).
Json json_number(double value);
// Its inverse: a number, or one of the three strings. NaN for anything else.
double number_from_json(const Json& value);

// Strict parse (duplicate keys refused, as the safetensors specification asks). Throws Error of kind kInternal with
// `where`.
Json parse_json(std::string_view text, const std::string& where);

// One line, invalid UTF-8 replaced: never throws on foreign text.
std::string dump_line(const Json& value);

}  // namespace gputrain
