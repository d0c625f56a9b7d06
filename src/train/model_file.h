#pragma once
#include "dist/comm.h"
#include "spec/plan.h"
#include "sys/fs.h"

namespace gputrain {

// Size and hash of the file of `model.torchscript` or `model.plugin`; "" for a model of the catalog.
std::string model_file_mark(FileSystem& fs, const ModelPlan& plan);

// The file of `model.torchscript` or `model.plugin` must be the same bytes on every rank: another build with the same
// parameters would train each rank's own function, and nothing would tell. Else Error(kData), the same on every rank. A
// collective operation; nothing happens where the model is of the catalog or the rank is alone. `mark`: this rank's
// model_file_mark().
void check_same_model_file(Comm& control, const std::string& mark, const ModelPlan& plan);

}  // namespace gputrain
