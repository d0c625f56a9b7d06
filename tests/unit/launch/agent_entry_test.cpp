// Lets this test program be its own agent: `PROGRAM agent --worker WORKER`, as the controller starts it.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include "launch/agent.h"
#include "util/log.h"
#include "util/text.h"

namespace gputrain {
namespace {

// Before main: googletest's main prints on stdout, which belongs to the protocol.
__attribute__((constructor)) void become_agent() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto words = split(text, '\0');
  if (words.size() < 2 || words[1] != "agent") return;
  AgentOptions options;
  if (words.size() > 3) options.worker = words[3];
  set_up_log("agent");
  ::_exit(run_agent(options));
}

}  // namespace
}  // namespace gputrain
