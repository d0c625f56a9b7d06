#pragma once
// The U-Net (https://arxiv.org/abs/1505.04597, https://arxiv.org/abs/1606.06650) in two and three dimensions, with
// padded convolutions, so that the mask has the image's size, and normalisation. The Python twin is
// tests/parity/reference_unet.py.
#include <memory>

#include "model/args.h"
#include "model/model.h"

namespace gputrain {

// in_channels, num_classes, width (channels of the first level; each level has twice the one above), levels (how often
// the size is halved), norm (instance, batch).
//
// Images [n, in_channels, height, width] to logits [n, num_classes, height, width]. forward throws Error(kData) for
// another number of channels, a size that cannot be halved `levels` times, and one that leaves instance normalisation a
// single value.
std::shared_ptr<Model> make_unet2d(const NamedArgs& args);
// The same of volumes [n, in_channels, depth, height, width].
std::shared_ptr<Model> make_unet3d(const NamedArgs& args);

}  // namespace gputrain
