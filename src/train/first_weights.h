#pragma once
// `model.init`: first weights from a safetensors file, where a run starts from the beginning.
#include <string>
#include <vector>

#include "model/model.h"
#include "sys/fs.h"

namespace gputrain {

// Names of the model's tensors, except `extra` and what of `ignored` the file alone has: those are the file's.
struct InitReport {
  std::string path;
  std::vector<std::string> loaded;
  std::vector<std::string> missing;  // keep their random values; empty under init_strict
  std::vector<std::string> extra;    // of the file, not the model's; empty under init_strict
  std::vector<std::string> ignored;  // by init_ignore, or known surplus of public files
  std::string wrapper;               // "module." where all names of the file began with it and it was left out

  // For people: how many were loaded, and one line each for what was not, with all its names.
  std::vector<std::string> notices() const;
  // For the log: the names of the loaded ones too, in one line.
  std::string loaded_names() const;
};

// Copies the file's tensors into the model's parameters and buffers of the same names; a name may lack the model's
// base_prefix(), and a shared parameter have any of its names. Floating-point types are converted to the model's. A
// num_batches_tracked that the file lacks (older PyTorch) keeps its 0 and is not missing, as in PyTorch.
//
// All or nothing: Error(kData) lists every tensor that is missing from the file, not the model's, or of another shape,
// and the model is unchanged. Without plan.init_strict only other shapes are errors, and a file of which nothing fits.
// Tensors that plan.init_ignore matches, on either side, take no part. Error(kData) too when the file is missing or no
// safetensors file, Error(kSpec) for a pattern that matches nothing.
InitReport init_model(FileSystem& fs, const Model& model, const ModelPlan& plan);

}  // namespace gputrain
