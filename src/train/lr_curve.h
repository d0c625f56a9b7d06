#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "util/json.h"
#include "util/units.h"

namespace gputrain {

// What a schedule does after its warm-up. All lengths in the unit of its granularity (steps, or whole epochs).
struct CurveRequest {
  const Json& args;    // of the catalog's entry; what is absent has the entry's default
  int64_t warmup = 0;  // w
  int64_t total = 1;   // T, at least 1
  std::function<int64_t(const Length&)> in_units;
};

// The factor for the update that follows u applied ones, u >= w; u may pass T.
using Curve = std::function<double(int64_t u)>;

// Throws Error(kSpec), where = "schedule.<argument>": an unknown name, a length that does not end within the run.
Curve make_curve(const std::string& name, const CurveRequest& request);

std::vector<std::string> curve_names();

}  // namespace gputrain
