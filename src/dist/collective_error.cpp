#include "dist/collective_error.h"

#include <c10/util/Exception.h>
#include <gloo/common/error.h>

#include "util/error.h"

namespace gputrain {
namespace {

[[noreturn]] void throw_peer_lost(const std::string& operation, const std::string& message) {
  throw Error(ErrorKind::kPeerLost, operation + " failed: " + short_reason(message), "",
              "this rank is a victim: the cause is in the log of the rank or host that failed first");
}

}  // namespace

std::string short_reason(const std::string& message) {
  std::string line = message.substr(0, message.find('\n'));
  if (line.starts_with("[")) {
    const auto end = line.find("] ");
    if (end != std::string::npos) line.erase(0, end + 2);
  }
  return line;
}

void run_collective(const std::string& operation, const std::function<void()>& body) {
  try {
    body();
  } catch (const gloo::Exception& error) {
    throw_peer_lost(operation, error.what());
  } catch (const c10::DistError& error) {
    throw_peer_lost(operation, error.what_without_backtrace());
  }
}

}  // namespace gputrain
