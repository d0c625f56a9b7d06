#pragma once
// Named in the plural: a "sys/socket.h" of ours would hide the system header.
// Sockets as plain descriptors, all close-on-exec. Errors are Error(kEnvironment) that name the address or path.
#include <string>
#include <utility>

#include "sys/fd.h"

namespace gputrain {

// Two connected ends of a stream.
std::pair<UniqueFd, UniqueFd> unix_socket_pair();

struct TcpListener {
  UniqueFd fd;
  int port = 0;  // chosen by the kernel when 0 was asked
};
// `address` is a numeric one or a name of this machine.
TcpListener tcp_listen(const std::string& address, int port = 0);

// A Unix socket in the file system; paths are limited to 107 bytes by the kernel. A stale socket file that nobody
// listens on is replaced; a live one is an Error.
UniqueFd unix_listen(const std::string& path);
UniqueFd unix_connect(const std::string& path);
// Removes the directory's "*.sock" files of this user that nobody listens on (killed programs leave them). Those of the
// last minute stay: a socket exists a moment before somebody listens. Never throws.
void remove_dead_sockets(const std::string& directory);
// The next waiting connection; empty when there is none (a non-blocking listener) or the peer has gone already.
UniqueFd accept_connection(int listener);

}  // namespace gputrain
