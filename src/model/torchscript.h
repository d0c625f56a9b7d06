#pragma once
// `model.torchscript`: a module that Python saved with torch.jit.script(m).save(path), trained like any other.
#include <memory>
#include <string>

#include "model/model.h"

namespace gputrain {

// Loads the file onto the CPU, weights included. Its parameters and buffers appear under the names they have in
// Python, in Python's order; those saved with requires_grad False stay frozen. (A traced module keeps the mode that its
// dropout and BatchNorm layers were traced in: that is in its code.) It runs without the JIT's optimizer: the
// operations of the eager module, so the same numbers, from the first step on (the profiling executor changes its mind
// after some runs, and a resumed run would not repeat). Error(kData) when the file is missing, damaged or no
// TorchScript (what it looks like), Error(kSpec) when its forward does not take one tensor and return one.
//
// What fails within the script is thrown as by a model of the catalog (script_error.h); buffers that its code assigns
// stay the tensors that they were (assigned_buffers.h).
std::shared_ptr<Model> load_torchscript(const std::string& path);

}  // namespace gputrain
