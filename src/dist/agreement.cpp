#include "dist/agreement.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string line_at(const std::vector<std::string>& lines, size_t index) {
  return index < lines.size() ? "`" + lines[index] + "`" : "nothing";
}

// The first differing line; -1 when all are equal.
int64_t first_difference(const std::vector<std::string>& mine, const std::vector<std::string>& reference) {
  const auto [a, b] = std::mismatch(mine.begin(), mine.end(), reference.begin(), reference.end());
  return a == mine.end() && b == reference.end() ? -1 : a - mine.begin();
}

}  // namespace

std::string first_disagreement(Comm& comm, const std::vector<std::string>& lines) {
  if (comm.world_size() == 1) return "";
  const std::vector<std::string> reference = split(comm.broadcast_bytes(join(lines, "\n"), 0), '\n');
  const std::vector<std::string> mine = split(join(lines, "\n"), '\n');
  const int64_t index = first_difference(mine, reference);
  at::Tensor differs = at::zeros({comm.world_size()}, at::kLong);
  differs[comm.rank()] = index + 1;
  comm.all_reduce_sum(differs);
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    const int64_t found = differs[rank].item<int64_t>();
    if (found == 0) continue;
    const auto line = static_cast<size_t>(found - 1);
    const std::string theirs = comm.broadcast_bytes(line_at(mine, line), rank);
    return "rank " + std::to_string(rank) + " has " + theirs + ", rank 0 has " + line_at(reference, line);
  }
  return "";
}

void check_agreement(Comm& comm, const std::string& what, const std::vector<std::string>& lines) {
  const std::string difference = first_disagreement(comm, lines);
  if (!difference.empty()) throw Error(ErrorKind::kInternal, what + " differs between the ranks: " + difference);
}

}  // namespace gputrain
