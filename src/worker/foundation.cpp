#include "worker/foundation.h"

#include <utility>

#include <ATen/Parallel.h>

#include "data/target_transform.h"
#include "data/transforms.h"
#include "dist/agreement.h"
#include "spec/shares.h"
#include "sys/fs.h"
#include "train/flops.h"
#include "train/model_file.h"
#include "train/model_input.h"
#include "train/precision.h"
#include "train/settings_check.h"
#include "util/error.h"

namespace gputrain {
namespace {

void set_up_device(Foundation& base, const std::string& libraries) {
  at::set_num_threads(base.assign.threads);
  set_up_precision(base.plan.train.precision, base.plan.train.deterministic);
  if (base.assign.device < 0) return;
  base.cuda = &load_cuda_backend(libraries + "/libgputrain_cuda.so");
  const int gpus = base.cuda->device_count();
  if (base.assign.device >= gpus) {
    throw Error(ErrorKind::kEnvironment,
                "GPU " + std::to_string(base.assign.device) + " was assigned, this host has " + std::to_string(gpus));
  }
  base.cuda->set_device(base.assign.device);
  base.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(base.assign.device));
  base.device_name = base.cuda->device_name(base.assign.device);
}

void open_data(Foundation& base) {
  const RunPlan& plan = base.plan;
  const SourceOptions options{plan.task, plan.model.classes(), plan.loss.ignore_index};
  base.train = open_source(plan.data.train, "data.train", options);
  if (plan.data.val) base.val = open_source(*plan.data.val, "data.val", options);
}

Comms connect(const Foundation& base, bool group_of_one) {
  const Assign& assign = base.assign;
  CommOptions options;
  options.rank = assign.rank;
  options.world_size = assign.world_size;
  options.store_address = assign.store_address;
  options.store_port = assign.store_port;
  options.store_listen_fd = assign.store_fd;
  options.key_prefix = assign.run_id + "/" + std::to_string(assign.attempt);
  options.device = assign.device;
  options.nccl = base.plan.launch.backend == Backend::kNccl;
  options.cuda = base.cuda;
  options.group_of_one = group_of_one;
  const Comms comms = make_comms(options);
  // Never destroyed: taking down a group whose peer is gone can block until its timeout, and an error that unwinds
  // through here must reach the agent first. The process ends with _exit.
  [[maybe_unused]] static const Comms* const kept = new Comms(comms);
  return comms;
}

// Every host must read the same files; the count of samples alone would not tell.
void check_same_data(const Foundation& base) {
  std::vector<std::string> lines{"data.train " + dump_line(base.train->fingerprint())};
  if (base.val) lines.push_back("data.val " + dump_line(base.val->fingerprint()));
  try {
    check_agreement(*base.comms.control, "the data", lines);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kInternal) throw;
    throw Error(ErrorKind::kData, error.message, error.where, "copy the same files to every host");
  }
}

// Of the catalog: its models are known to train all that they have.
bool is_ours(const ModelPlan& model) {
  return model.torchscript.empty() && model.plugin.empty();
}

// Before training: model and samples fit each other, and what the model makes fits the task.
void check_samples_fit(Foundation& base) {
  const RunPlan& plan = base.plan;
  const auto check = [&](const Source& source, const std::vector<Named>& transforms, const std::string& role) {
    const TransformOptions options{.float_type = model_type(plan.train.precision)};
    const auto pipeline = make_pipeline(transforms, {source.sample_shape(), source.sample_type()}, options);
    const auto& [shape, type] = pipeline->output();
    at::Tensor output;
    const int64_t flops =
        count_flops([&] { output = check_model_takes(*base.model, shape, at::dtype(type).device(base.device), role); });
    if (&source == base.train.get()) {
      base.forward_flops = flops;
      if (!is_ours(plan.model)) check_all_trained(*base.model, shape, at::dtype(type).device(base.device));
    }
    if (!base.objective) {
      const int64_t classes = classes_of_output(plan.task, output.sizes());
      base.objective = make_objective(plan, plan.model.classes().value_or(classes));
    }
    const SampleSpec of_target = TargetTransform(source, *pipeline, options.float_type).output();
    std::vector<int64_t> target{1};
    target.insert(target.end(), of_target.shape.begin(), of_target.shape.end());
    base.objective->check(output, at::zeros(target, of_target.type), {0});
  };
  if (base.assign.resume.mode != "eval") check(*base.train, plan.data.train_transforms, "data.train");
  if (base.val) check(*base.val, plan.data.val_transforms, "data.val");
}

LoaderOptions common_loader_options(const Foundation& base) {
  const RunPlan& plan = base.plan;
  LoaderOptions options;
  options.shard = {base.assign.rank, base.assign.world_size};
  options.global_batch = plan.train.global_batch;
  options.micro_batch = plan.train.micro_batch;
  options.seed = plan.seed;
  options.workers = plan.data.workers;
  options.prefetch = plan.data.prefetch;
  options.float_type = model_type(plan.train.precision);
  options.pin_memory = plan.data.pin_memory && base.cuda != nullptr;
  if (options.pin_memory) {
    options.allocate = [cuda = base.cuda](at::IntArrayRef sizes, at::ScalarType type) {
      return cuda->pinned_empty(sizes.vec(), type);
    };
  }
  return options;
}

}  // namespace

Foundation lay_foundation(const Assign& assign, const FoundationOptions& options) {
  Foundation base;
  base.assign = assign;
  base.plan = run_plan_from_json(assign.plan);
  set_up_device(base, options.libraries);
  open_data(base);
  base.model = make_model(base.plan.model, base.plan.seed, model_type(base.plan.train.precision));
  base.model->to(base.device);
  if (base.plan.train.channels_last) make_channels_last(*base.model);
  base.comms = connect(base, options.group_of_one);
  base.vote = std::make_unique<Vote>(base.comms.control);
  check_same_data(base);
  base.model_file = model_file_mark(real_file_system(), base.plan.model);
  check_same_model_file(*base.comms.control, base.model_file, base.plan.model);
  std::vector<std::string> settings = numeric_settings(base.plan);
  settings.insert(settings.end(), options.variables.begin(), options.variables.end());
  const std::string mixed = check_same_arithmetic(*base.comms.control, settings, numeric_environment(base.device_name));
  if (!mixed.empty()) base.notices.push_back(mixed);
  check_samples_fit(base);
  return base;
}

LoaderOptions training_loader_options(const Foundation& base) {
  LoaderOptions options = common_loader_options(base);
  options.drop_tail = base.plan.data.tail == Tail::kDrop;
  return options;
}

LoaderOptions evaluation_loader_options(const Foundation& base) {
  LoaderOptions options = common_loader_options(base);
  if (options.micro_batch == 0) options.micro_batch = largest_share(options.global_batch, options.shard.count);
  return options;
}

}  // namespace gputrain
