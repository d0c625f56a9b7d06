#include "dist/reducer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "dist/reducer_backends.h"
#include "util/error.h"

namespace gputrain {
namespace {

// The strides are the parameter's: autograd then adds in place, and c10d accepts the gradient as a bucket view.
void define_zero_gradients(const std::vector<at::Tensor>& parameters) {
  for (const auto& parameter : parameters) {
    GP_CHECK(parameter.requires_grad() && parameter.is_leaf(), "a reducer takes trainable parameters");
    parameter.mutable_grad() = at::zeros_like(parameter, parameter.options().requires_grad(false));
  }
}

}  // namespace

void zero_in_place(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  for (const auto& parameter : parameters) parameter.grad().zero_();
}

std::unique_ptr<GradReducer> make_reducer(std::shared_ptr<Comm> comm, std::vector<at::Tensor> parameters,
                                          const std::vector<std::string>& names, const ReducerOptions& options) {
  GP_CHECK(!parameters.empty() && parameters.size() == names.size(), "a reducer takes one name a parameter");
  define_zero_gradients(parameters);
  ReducerInput input{std::move(comm), std::move(parameters), names, options};
  if (!input.comm->process_group()) return make_single_reducer(std::move(input));
  if (options.kind == "c10d") return make_c10d_reducer(std::move(input));
  if (options.kind == "flat") return make_flat_reducer(std::move(input));
  throw Error(ErrorKind::kInternal, "unknown gradient reducer `" + options.kind + "`");
}

}  // namespace gputrain
