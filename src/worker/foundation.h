#pragma once
// What every worker builds first, whatever it does: plan, device, data, model, connections.
#include <memory>
#include <string>

#include "data/loader.h"
#include "dist/backend_registry.h"
#include "dist/comm.h"
#include "model/model.h"
#include "spec/plan.h"
#include "train/objective.h"
#include "train/vote.h"
#include "wire/messages.h"

namespace gputrain {

struct Foundation {
  Assign assign;
  RunPlan plan;
  const CudaBackend* cuda = nullptr;  // null on a CPU
  at::Device device = at::kCPU;
  std::string device_name = "cpu";
  std::unique_ptr<Source> train, val;  // val may be null
  std::shared_ptr<Model> model;        // on the device
  std::string model_file;              // see model_file_mark()
  std::unique_ptr<Objective> objective;
  Comms comms;
  std::unique_ptr<Vote> vote;
  int64_t forward_flops = 0;         // of one training sample
  std::vector<std::string> notices;  // for people
};

struct FoundationOptions {
  std::string libraries;               // the directory of libgputrain_cuda.so
  bool group_of_one = false;           // see CommOptions
  std::vector<std::string> variables;  // what this process has of kNumericVariables: variable_line() of each
};

// In this order: checks that need no peer (so that every rank reports its own bad file), then the connections. Throws
// Error of every kind that design section 4 has for bad input.
Foundation lay_foundation(const Assign& assign, const FoundationOptions& options);

LoaderOptions training_loader_options(const Foundation& foundation);
LoaderOptions evaluation_loader_options(const Foundation& foundation);

}  // namespace gputrain
