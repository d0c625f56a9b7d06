#pragma once
// `gputrain explain [KEY]`: what a key means, from the field table and the catalog.
#include <string>
#include <string_view>

namespace gputrain {

// All keys with type, default and the first sentence of their help, by section.
std::string explain_all();

// A key ("train.epochs"), a section ("train"), an argument ("optimizer.lr", "model.args.hidden"), or a catalog name
// ("adamw", "resnet50"). '-' and '_' are equal. Throws Error(kUsage) with the nearest key when there is none.
std::string explain(std::string_view key);

}  // namespace gputrain
