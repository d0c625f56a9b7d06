#include "util/error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace gputrain {
namespace {

struct KindRow {
  ErrorKind kind;
  std::string_view word;
  ExitCode code;
  bool retryable;
};

constexpr KindRow kKinds[] = {
    {ErrorKind::kUsage, "usage", ExitCode::kUsage, false},
    {ErrorKind::kSpec, "spec", ExitCode::kSpec, false},
    {ErrorKind::kData, "data", ExitCode::kData, false},
    {ErrorKind::kEnvironment, "environment", ExitCode::kEnvironment, false},
    {ErrorKind::kInternal, "internal", ExitCode::kInternal, false},
    {ErrorKind::kOutput, "output", ExitCode::kOutput, false},
    {ErrorKind::kCheckpoint, "checkpoint", ExitCode::kCheckpoint, false},
    {ErrorKind::kNonFinite, "non_finite", ExitCode::kFailed, false},
    {ErrorKind::kOutOfMemory, "out_of_memory", ExitCode::kFailed, true},
    {ErrorKind::kPeerLost, "peer_lost", ExitCode::kFailed, true},
    {ErrorKind::kCannotExecute, "cannot_execute", ExitCode::kCannotExecute, false},
    {ErrorKind::kNotFound, "not_found", ExitCode::kNotFound, false},
};

const KindRow& row(ErrorKind kind) {
  for (const auto& candidate : kKinds) {
    if (candidate.kind == kind) return candidate;
  }
  std::abort();
}

std::string join_messages(const std::vector<Error>& errors) {
  std::string text;
  for (const auto& error : errors) text += (text.empty() ? "" : "\n") + error.render();
  return text;
}

}  // namespace

Error::Error(ErrorKind kind, std::string message, std::string where, std::string hint)
    : std::runtime_error(message),
      kind(kind),
      message(std::move(message)),
      where(std::move(where)),
      hint(std::move(hint)) {}

std::string Error::render() const {
  std::string text = where.empty() ? message : where + ": " + message;
  if (!hint.empty()) text += "\nhint: " + hint;
  return text;
}

ErrorList::ErrorList(std::vector<Error> errors)
    : std::runtime_error(join_messages(errors)), errors(std::move(errors)) {}

ExitCode exit_code(ErrorKind kind) {
  return row(kind).code;
}
std::string_view error_word(ErrorKind kind) {
  return row(kind).word;
}
bool is_retryable(ErrorKind kind) {
  return row(kind).retryable;
}

ErrorKind error_kind(std::string_view word) {
  for (const auto& candidate : kKinds) {
    if (candidate.word == word) return candidate.kind;
  }
  return ErrorKind::kInternal;
}

std::string errno_text(int error_number) {
  char buffer[256];
  return strerror_r(error_number, buffer, sizeof buffer);
}

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "gputrain: internal error: %s:%d: %s: %s\n", file, line, expression, message.c_str());
  std::abort();
}

}  // namespace gputrain
