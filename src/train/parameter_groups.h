#pragma once
#include <memory>

#include "spec/plan.h"
#include "train/optimizer.h"

namespace gputrain {

// One optimizer for each group of parameters that share weight decay and learning rate: PyTorch's parameter groups.
// Each parameter is in one group. Without rules this is make_optimizer(plan, parameters). Error(kSpec) for a pattern of
// lr_scales that no parameter matches.
std::unique_ptr<Optimizer> make_grouped_optimizer(const Named& plan, const ParameterRules& rules,
                                                  NamedParameters parameters);

// Which group a parameter is in.
struct GroupKey {
  bool decayed = true;
  double lr_scale = 1;
  bool operator==(const GroupKey&) const = default;
};
GroupKey group_of(const ParameterRules& rules, const std::string& name, const at::Tensor& parameter);

}  // namespace gputrain
