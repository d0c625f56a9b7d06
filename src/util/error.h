#pragma once
// The one exception type that crosses module boundaries, and the two macros for broken invariants.
//
// An Error says what is wrong, where, and what to do. It is thrown by whoever has the context, never logged on the way,
// and rendered once by a program's main(). Expected outcomes are return values, not Errors. A broken invariant aborts.
#include <stdexcept>
#include <string>
#include <vector>

#include "util/exit_code.h"

namespace gputrain {

// The class of a failure. It decides the exit code, and whether a restart can help (see is_retryable).
enum class ErrorKind {
  kUsage,          // 2
  kSpec,           // 64
  kData,           // 65
  kEnvironment,    // 69
  kInternal,       // 70
  kOutput,         // 73
  kCheckpoint,     // 74
  kNonFinite,      // 1: a loss or gradient is not finite
  kOutOfMemory,    // 1: device or host memory
  kPeerLost,       // 1: a collective failed because a peer went away (a victim, never the culprit)
  kCannotExecute,  // 126
  kNotFound,       // 127
};

struct Error : std::runtime_error {
  // `where` is file:line:col, a host, a rank, a path; `hint` is the remedy. Both may be empty.
  Error(ErrorKind kind, std::string message, std::string where = "", std::string hint = "");

  ErrorKind kind;
  std::string message;
  std::string where;
  std::string hint;

  // "where: message" and, on a second line, "hint: ...": what people see after "gputrain: error: ".
  std::string render() const;
};

// Several problems found in one pass (a spec with three bad keys): rendered one after another.
struct ErrorList : std::runtime_error {
  explicit ErrorList(std::vector<Error> errors);
  std::vector<Error> errors;
};

ExitCode exit_code(ErrorKind kind);
// The word in result.json and on the wire: "spec", "data", "non_finite", "out_of_memory", ...
std::string_view error_word(ErrorKind kind);
// The inverse of error_word; kInternal for a word this version does not know.
ErrorKind error_kind(std::string_view word);
// Whether starting again may help (lost peers); spec, data, checkpoint, non-finite, exec errors and 70 never do.
bool is_retryable(ErrorKind kind);

// "No such file or directory" for ENOENT; thread-safe.
std::string errno_text(int error_number);

[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& message);

}  // namespace gputrain

// A broken invariant of our own: aborts with expression, place and message. Not for bad input.
#define GP_CHECK(condition, message) \
  ((condition) ? void(0) : ::gputrain::check_failed(#condition, __FILE__, __LINE__, (message)))
