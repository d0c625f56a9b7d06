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
// Removes the directory's "PREFIX*.sock" files of this user that nobody listens on (killed programs leave them); what
// cannot be read or removed stays. Another machine's live socket looks dead from here: the prefix must be this one's
// own. The caller keeps others from listening there meanwhile (lock_directory): one who binds a dead name between the
// look and the removal would lose its socket. Those of the last minute stay, for programs that do not lock.
void remove_dead_sockets(const std::string& directory, const std::string& prefix);
// The next waiting connection; empty when there is none (a non-blocking listener) or the peer has gone already.
UniqueFd accept_connection(int listener);

}  // namespace gputrain
