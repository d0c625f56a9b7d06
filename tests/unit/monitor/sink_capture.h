#pragma once
// A pipe that a sink under test writes to.
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace gputrain::testing {

class Capture {
 public:
  Capture() {
    if (pipe2(fds_, O_CLOEXEC | O_NONBLOCK) != 0) fds_[0] = fds_[1] = -1;
  }
  ~Capture() {
    close_reader();
    close(fds_[1]);
  }
  int fd() const { return fds_[1]; }
  void close_reader() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  // What was written since the last call.
  std::string take() {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(fds_[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
    return text;
  }

 private:
  int fds_[2] = {-1, -1};
};

}  // namespace gputrain::testing
