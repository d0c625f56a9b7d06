#pragma once
#include <utility>

#include "util/error.h"

namespace gputrain {

// What every rank throws alike although one of them is the cause (a loss that is not finite).
struct BlamedError : Error {
  BlamedError(Error error, int rank) : Error(std::move(error)), culprit(rank) {}
  int culprit;  // the rank that is to blame
};

}  // namespace gputrain
