#pragma once
// `model.plugin`: a model out of a shared library that was made with include/gputrain/plugin.h.
#include <memory>
#include <string>

#include "gputrain/plugin.h"
#include "model/model.h"

namespace gputrain {

// Loads the library at `path` and makes its model from `args`, in float32 on the CPU; the caller has seeded the
// generator. The library stays loaded until the process ends. Error(kData) when the file is missing or no shared
// library, Error(kSpec) when it is not a plug-in of this very gputrain and LibTorch (told from the file, before any of
// its code runs), and when the plug-in refuses its arguments.
std::shared_ptr<Model> load_plugin(const std::string& path, const Json& args);

// model.args as a plug-in reads them. Error(kSpec) for what no ModelArg holds: null, lists in lists, maps.
ModelArgs plugin_args(const Json& args);

}  // namespace gputrain
