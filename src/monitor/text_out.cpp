#include "monitor/text_out.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <poll.h>
#include <unistd.h>

namespace gputrain {

void write_quietly(int fd, std::string_view text) {
  while (!text.empty()) {
    pollfd target{fd, POLLOUT, 0};
    const int ready = ::poll(&target, 1, 0);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || (target.revents & POLLOUT) == 0) return;
    // A pipe that is writable has room for PIPE_BUF bytes: not more, or write(2) would wait for a reader.
    const ssize_t written = ::write(fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace gputrain
