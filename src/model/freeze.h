#pragma once
#include <string>
#include <vector>

#include "model/model.h"

namespace gputrain {

// Sets requires_grad false on the parameters whose name (any name of a shared one) matches one of `patterns`. They get
// no gradient, no optimizer state and no weight decay, and stay in checkpoints. As in PyTorch, a frozen BatchNorm layer
// in training still normalises by the batch and moves its running statistics: these are buffers. Error(kSpec) for a
// pattern that matches no parameter, and when nothing is left to train; the model is unchanged then.
void freeze_parameters(Model& model, const std::vector<std::string>& patterns);

}  // namespace gputrain
