#include "dist/rendezvous.h"

#include <cerrno>

#include <c10/util/Exception.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "dist/collective_error.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

std::string store_name(const CommOptions& options) {
  return "store " + options.store_address + ":" + std::to_string(options.store_port);
}

c10::intrusive_ptr<c10d::Store> connect_store(const CommOptions& options) {
  c10d::TCPStoreOptions store;
  store.port = static_cast<std::uint16_t>(options.store_port);
  store.isServer = options.rank == 0;
  store.waitWorkers = false;  // join_store waits, and can say for whom
  store.timeout = options.connect_timeout;
  // The real port goes along: with port 0 only one of the two server back ends accepts a bound socket.
  if (store.isServer && options.store_listen_fd >= 0) store.masterListenFd = options.store_listen_fd;
  return c10::make_intrusive<c10d::PrefixStore>(options.key_prefix,
                                                c10::make_intrusive<c10d::TCPStore>(options.store_address, store));
}

std::string joined_key(int rank) {
  return "joined/" + std::to_string(rank);
}

// "rank 2", "ranks 1, 2 and 5"; "its server is gone" when the store cannot even say.
std::string missing_ranks(c10d::Store& store, int world_size) {
  std::vector<std::string> missing;
  try {
    for (int rank = 0; rank < world_size; ++rank) {
      if (!store.check({joined_key(rank)})) missing.push_back(std::to_string(rank));
    }
  } catch (const std::exception&) {
    return "rank 0, which serves the store, has gone";
  }
  return (missing.size() == 1 ? "rank " : "ranks ") + join_words(missing) + " did not come";
}

void wait_for_all(c10d::Store& store, const CommOptions& options) {
  store.set(joined_key(options.rank), std::vector<uint8_t>{1});
  std::vector<std::string> keys;
  keys.reserve(static_cast<size_t>(options.world_size));
  for (int rank = 0; rank < options.world_size; ++rank) keys.push_back(joined_key(rank));
  try {
    store.wait(keys, options.connect_timeout);
  } catch (const c10::DistError&) {
    throw Error(ErrorKind::kPeerLost,
                missing_ranks(store, options.world_size) + " within " +
                    format_number(options.connect_timeout.count() / 1000.0) + " s",
                store_name(options),
                "look at the logs of those ranks; a firewall between the hosts has the same effect");
  }
}

class Socket {
 public:
  explicit Socket(const addrinfo& to) : fd_(::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC, to.ai_protocol)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> join_store(const CommOptions& options) {
  c10::intrusive_ptr<c10d::Store> store;
  try {
    run_collective("connecting to " + store_name(options), [&] {
      store = connect_store(options);
      wait_for_all(*store, options);
    });
  } catch (const c10::Error& error) {  // a port in use, a listening socket on another port
    throw Error(ErrorKind::kEnvironment, short_reason(error.what_without_backtrace()), store_name(options));
  }
  return store;
}

std::string local_address_towards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;  // connecting a datagram socket picks the route and sends nothing
  addrinfo* found = nullptr;
  if (int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); rc != 0) {
    throw Error(ErrorKind::kEnvironment, std::string("cannot resolve the address of rank 0: ") + ::gai_strerror(rc),
                host);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const Socket socket(*found);
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
    throw Error(ErrorKind::kEnvironment, "no network route to rank 0: " + errno_text(errno), host);
  }
  char text[NI_MAXHOST];
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&local), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    throw Error(ErrorKind::kEnvironment, "cannot name the interface that leads to rank 0", host);
  }
  return text;
}

}  // namespace gputrain
