#pragma once
// How another process asks a running controller: `gputrain status` and `gputrain stop`. One connection, one line of
// JSON each way.
//
// Requests: {"request": "status"} and {"request": "stop", "now": false}. Replies: an object, {"error": text} when it
// was not understood. status: {run_id, output, state, attempt, step, total_steps, world_size, restarts, ranks: [{rank,
// host, pid, state}], started (UTC)}; state is one of starting, running, stopping, recovering. stop: {"ok": true}; the
// run ends later: watch the lock or result.json.
#include <functional>
#include <map>
#include <string>

#include "sys/event_loop.h"
#include "sys/fd.h"
#include "util/json.h"

namespace gputrain {

// The socket's path for a run: short (the system's limit is 108 bytes), the same for each launch of the same output
// directory on this host until it boots again. The control directory may be shared between hosts.
std::string control_socket_path(const std::string& control_directory, const std::string& output);

class ControlSocket {
 public:
  using Handler = std::function<Json(const Json& request)>;

  // Listens; the directory is made (0700) when missing, and a socket left there by a dead run is replaced (the caller
  // holds the run's lock), sockets of this host's other dead runs are removed. Throws Error(kEnvironment). The file is
  // removed by the destructor.
  ControlSocket(EventLoop& loop, std::string path, Handler handler);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  const std::string& path() const { return path_; }

 private:
  void accept_client();
  void read_client(int fd);
  void drop_client(int fd);

  EventLoop& loop_;
  std::string path_;
  Handler handler_;
  UniqueFd listener_;
  std::map<int, std::string> clients_;  // fd -> what it sent so far
};

// Asks the controller that listens on `socket_path` and waits at most 5 s. Throws Error(kEnvironment) when none
// answers.
Json control_request(const std::string& socket_path, const Json& request);

}  // namespace gputrain
