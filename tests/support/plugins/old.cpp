// A plug-in as another version's header would have made it. It must be refused before any of it runs.
#include <cstdlib>

extern "C" __attribute__((visibility("default"), used)) const char gputrain_plugin_abi[];
extern "C" const char gputrain_plugin_abi[] =
    "gputrain plug-in ABI 1, LibTorch 1.13.1, C++ ABI 1, _GLIBCXX_USE_CXX11_ABI=0";

__attribute__((constructor)) static void at_load() {
  std::abort();
}
