#pragma once
#include "dist/comm.h"
#include "spec/plan.h"
#include "sys/fs.h"

namespace gputrain {

// Size and hash of the file of `model.torchscript` or `model.plugin`; "" for a model of the catalog.
std::string model_file_mark(FileSystem& fs, const ModelPlan& plan);

// The file of `model.torchscript` or `model.plugin` must be the same bytes on every rank: another build with the same
// parameters would train each rank's own function, and nothing would tell. Else Error(kData), the same on every rank. A
// collective operation; nothing is read where the model is of the catalog or the rank is alone.
void check_same_model_file(Comm& control, FileSystem& fs, const ModelPlan& plan);

}  // namespace gputrain
