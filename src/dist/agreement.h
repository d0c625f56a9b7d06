#pragma once
#include <string>
#include <vector>

#include "dist/comm.h"

namespace gputrain {

// The first rank, and its first line, that is not as rank 0's: "rank 2 has `...`, rank 0 has `...`", the same text on
// every rank; "" when all agree. A collective operation.
std::string first_disagreement(Comm& comm, const std::vector<std::string>& lines);

// Checks that every rank holds the same lines as rank 0. When one does not, every rank throws the same
// Error(kInternal): "<what> differs between the ranks: rank 2 has `...`, rank 0 has `...`". A collective operation.
void check_agreement(Comm& comm, const std::string& what, const std::vector<std::string>& lines);

}  // namespace gputrain
