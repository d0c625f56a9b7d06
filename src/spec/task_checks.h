#pragma once
// What model, task, loss and metrics say of each other. Internal to spec.
#include <vector>

#include "spec/node.h"
#include "spec/spec.h"

namespace gputrain {

// Settings that could not be read are absent from `spec`.
void check_task(const Spec& spec, std::vector<Problem>* problems);

}  // namespace gputrain
