// LD_PRELOAD for Debian's adbd: answers Android's properties from the environment (ro.x.y is PROP_ro_x_y), makes it
// listen on $ADBD_ADDRESS alone, and refuses vsock, on which it would listen besides.
#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <sys/socket.h>

namespace android::base {
std::string GetProperty(const std::string& key, const std::string& otherwise) {
  std::string name = "PROP_" + key;
  for (char& c : name)
    if (c == '.') c = '_';
  const char* value = getenv(name.c_str());
  return value ? value : otherwise;
}
}  // namespace android::base

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

extern "C" int socket(int domain, int type, int protocol) {
  if (domain == AF_VSOCK) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return next<int(int, int, int)>("socket")(domain, type, protocol);
}

extern "C" int bind(int fd, const sockaddr* address, socklen_t length) {
  const std::string allowed = getenv("ADBD_ADDRESS");
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  const sockaddr* used = address;
  if (address->sa_family == AF_INET6) {
    v6 = *reinterpret_cast<const sockaddr_in6*>(address);
    inet_pton(AF_INET6, ("::ffff:" + allowed).c_str(), &v6.sin6_addr);
    used = reinterpret_cast<const sockaddr*>(&v6);
  } else if (address->sa_family == AF_INET) {
    v4 = *reinterpret_cast<const sockaddr_in*>(address);
    inet_pton(AF_INET, allowed.c_str(), &v4.sin_addr);
    used = reinterpret_cast<const sockaddr*>(&v4);
  }
  return next<int(int, const sockaddr*, socklen_t)>("bind")(fd, used, length);
}
