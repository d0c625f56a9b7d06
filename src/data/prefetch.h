#pragma once
// The loader with decode threads.
#include <memory>

#include "data/cuts.h"
#include "data/decode.h"

namespace gputrain {

struct LoaderParts {
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Cuts> cuts;
};

std::unique_ptr<Loader> make_prefetching_loader(LoaderParts parts, int workers, int prefetch);

}  // namespace gputrain
