#include "train/lr_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

// 1 at position 0, `last` at position 1, both exactly.
double linear(double position, double last) {
  return std::lerp(1.0, last, position);
}

double cosine(double position, double last) {
  return std::lerp(last, 1.0, 0.5 * (1 + std::cos(std::numbers::pi * position)));
}

double square_root(double position, double last) {
  return std::lerp(1.0, last, std::sqrt(position));
}

double number(const CurveRequest& request, const char* name, double fallback) {
  return request.args.value(name, fallback);
}

double final_factor(const CurveRequest& request) {
  return number(request, "final_factor", 0);
}

auto shape_of(const CurveRequest& request, const std::string& fallback) {
  const std::string word = request.args.value("shape", fallback);
  return word == "linear" ? &linear : word == "cosine" ? &cosine : &square_root;
}

// A length that lies within `limit`, the part of the run that there is for it: what is longer would never happen.
int64_t bounded(const CurveRequest& request, const char* argument, const std::string& text, int64_t limit) {
  const auto length = parse_length(text);
  GP_CHECK(length, "the spec has checked this length");
  const int64_t units = request.in_units(*length);
  if (units >= 1 && units <= limit) return units;
  throw Error(ErrorKind::kSpec,
              text + (units < 1 ? " is less than one step" : " does not end within the run") + ": that is " +
                  std::to_string(units) + " of the " + std::to_string(limit) + " there are for it",
              "schedule." + std::string(argument), "shorten it, or train longer");
}

int64_t length(const CurveRequest& request, const char* argument, int64_t limit) {
  return bounded(request, argument, request.args.at(argument).get<std::string>(), limit);
}

// 0 at `begin`, 1 from `length` units after it on.
struct Position {
  int64_t begin, length;
  double operator()(int64_t u) const {
    return std::min(1.0, static_cast<double>(u - begin) / static_cast<double>(length));
  }
};

// From the end of the warm-up to the end of the run.
Position after_warmup(const CurveRequest& request) {
  return {request.warmup, std::max<int64_t>(1, request.total - request.warmup)};
}

// A curve over the position, from 1 to the final factor.
template <double (*kShape)(double, double)>
Curve decay(const CurveRequest& request) {
  return
      [position = after_warmup(request), last = final_factor(request)](int64_t u) { return kShape(position(u), last); };
}

Curve constant(const CurveRequest&) {
  return [](int64_t) { return 1.0; };
}

// torch.optim.lr_scheduler.PolynomialLR, ending at the final factor instead of 0.
Curve polynomial(const CurveRequest& request) {
  return [position = after_warmup(request), power = number(request, "power", 1),
          last = final_factor(request)](int64_t u) { return std::lerp(last, 1.0, std::pow(1 - position(u), power)); };
}

// torch.optim.lr_scheduler.CosineAnnealingWarmRestarts. The period that the run ends in need not end.
Curve cosine_restarts(const CurveRequest& request) {
  const int64_t first = length(request, "first", after_warmup(request).length);
  const int64_t multiplier = request.args.value("multiplier", int64_t{1});
  return [warmup = request.warmup, first, multiplier, last = final_factor(request)](int64_t u) {
    int64_t t = u - warmup, period = first;
    if (multiplier == 1) {
      t %= period;
    } else {
      for (; t >= period && period <= std::numeric_limits<int64_t>::max() / multiplier; period *= multiplier)
        t -= period;
    }
    return cosine(static_cast<double>(t) / static_cast<double>(period), last);
  };
}

// torch.optim.lr_scheduler.StepLR beside the warm-up, not after it: a milestone is a point of the training.
Curve step(const CurveRequest& request) {
  const int64_t every = length(request, "every", request.total);
  return [every, gamma = number(request, "gamma", 0.1)](int64_t u) {
    const int64_t drops = u / every;
    return std::pow(gamma, static_cast<double>(drops));
  };
}

Curve multistep(const CurveRequest& request) {
  std::vector<int64_t> milestones;
  for (const auto& item : request.args.at("milestones")) {
    milestones.push_back(bounded(request, "milestones", item.get<std::string>(), request.total));
  }
  if (!std::is_sorted(milestones.begin(), milestones.end(), std::less_equal<>())) {
    throw Error(ErrorKind::kSpec, "each milestone must be later than the one before", "schedule.milestones");
  }
  return [milestones, gamma = number(request, "gamma", 0.1)](int64_t u) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), u) - milestones.begin();
    return std::pow(gamma, static_cast<double>(passed));
  };
}

// get_inverse_sqrt_schedule of Hugging Face's transformers.
Curve inverse_sqrt(const CurveRequest& request) {
  constexpr int64_t kTimescale = 10000;
  const std::string word = request.args.value("timescale", "auto");
  int64_t timescale = request.warmup > 0 ? request.warmup : kTimescale;
  if (word != "auto") timescale = bounded(request, "timescale", word, std::numeric_limits<int64_t>::max());
  return [warmup = request.warmup, timescale](int64_t u) {
    return std::sqrt(static_cast<double>(timescale) / static_cast<double>(timescale + u - warmup));
  };
}

// torch.optim.lr_scheduler.OneCycleLR with two phases. Its warm-up is its own: schedule.warmup is none.
Curve one_cycle(const CurveRequest& request) {
  const double first = 1 / number(request, "start_divisor", 25), last = first / number(request, "final_divisor", 1e4);
  const double peak = number(request, "peak", 0.3) * static_cast<double>(request.total) - 1;
  const double end = static_cast<double>(request.total - 1);
  const auto shape = shape_of(request, "cosine");
  return [=](int64_t updates) {
    const double u = static_cast<double>(updates);
    // From `to` back to `from`, so that both ends are exact.
    if (u < peak) return std::lerp(first, 1.0, shape(1 - u / peak, 0));
    if (u >= end) return last;
    return std::lerp(last, 1.0, shape((u - peak) / (end - peak), 0));
  };
}

Curve wsd(const CurveRequest& request) {
  const int64_t decay = length(request, "decay", after_warmup(request).length);
  const Position position{request.total - decay, decay};
  return [position, shape = shape_of(request, "linear"), last = final_factor(request)](int64_t u) {
    return u < position.begin ? 1.0 : shape(position(u), last);
  };
}

struct Entry {
  const char* name;
  Curve (*make)(const CurveRequest&);
};

constexpr Entry kCurves[] = {
    {"constant", constant},
    {"linear", decay<linear>},
    {"cosine", decay<cosine>},
    {"cosine_restarts", cosine_restarts},
    {"step", step},
    {"multistep", multistep},
    {"polynomial", polynomial},
    {"inverse_sqrt", inverse_sqrt},
    {"one_cycle", one_cycle},
    {"wsd", wsd},
};

}  // namespace

Curve make_curve(const std::string& name, const CurveRequest& request) {
  for (const Entry& entry : kCurves) {
    if (name == entry.name) return entry.make(request);
  }
  throw Error(ErrorKind::kSpec, "unknown schedule " + printable(name), "", "one of " + join_words(curve_names(), "or"));
}

std::vector<std::string> curve_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kCurves) names.emplace_back(entry.name);
  return names;
}

}  // namespace gputrain
