#include "train/parameter_groups.h"

#include <algorithm>
#include <map>

#include <ATen/core/Tensor.h>

#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

class GroupedOptimizer : public Optimizer {
 public:
  GroupedOptimizer(double base_lr, std::vector<std::unique_ptr<Optimizer>> groups, std::vector<std::string> order)
      : base_lr_(base_lr), groups_(std::move(groups)), order_(std::move(order)) {}

  void step(double lr_factor) override {
    for (const auto& group : groups_) group->step(lr_factor);
  }
  double base_lr() const override { return base_lr_; }

  NamedParameters state() const override {
    std::map<std::string, NamedParameters> of_parameter;
    for (const auto& group : groups_) {
      for (auto& item : group->state()) of_parameter[item.first.substr(0, item.first.rfind('/'))].push_back(item);
    }
    NamedParameters out;
    for (const std::string& name : order_) {
      const NamedParameters& items = of_parameter[name];
      out.insert(out.end(), items.begin(), items.end());
    }
    return out;
  }

 private:
  double base_lr_;
  std::vector<std::unique_ptr<Optimizer>> groups_;
  std::vector<std::string> order_;  // of the model's parameters
};

auto first_match(const ParameterRules& rules, const std::string& name) {
  return std::ranges::find_if(rules.lr_scales, [&](const auto& scale) { return matches_pattern(name, scale.pattern); });
}

void check_patterns(const ParameterRules& rules, const NamedParameters& parameters) {
  std::vector<bool> used(rules.lr_scales.size());
  for (const auto& [name, parameter] : parameters) {
    const auto first = first_match(rules, name);
    if (first != rules.lr_scales.end()) used[static_cast<size_t>(first - rules.lr_scales.begin())] = true;
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    throw Error(
        ErrorKind::kSpec,
        "the pattern \"" + printable(rules.lr_scales[i].pattern) + "\" is the first to match of no trained parameter",
        "optimizer.lr_scales",
        "parameters are named like " + parameters.front().first + "; put narrow patterns before wide ones");
  }
}

Named with_group(Named plan, const GroupKey& key) {
  if (!key.decayed) plan.args["weight_decay"] = 0.0;
  plan.args["lr"] = plan.args.at("lr").get<double>() * key.lr_scale;
  return plan;
}

}  // namespace

GroupKey group_of(const ParameterRules& rules, const std::string& name, const at::Tensor& parameter) {
  GroupKey key;
  key.decayed = rules.decay_norm_and_bias || parameter.dim() >= 2;
  if (const auto first = first_match(rules, name); first != rules.lr_scales.end()) key.lr_scale = first->scale;
  return key;
}

std::unique_ptr<Optimizer> make_grouped_optimizer(const Named& plan, const ParameterRules& rules,
                                                  NamedParameters parameters) {
  if (rules.decay_norm_and_bias && rules.lr_scales.empty()) return make_optimizer(plan, std::move(parameters));
  check_patterns(rules, parameters);
  std::vector<std::pair<GroupKey, NamedParameters>> groups;
  std::vector<std::string> order;
  for (auto& [name, parameter] : parameters) {
    const GroupKey key = group_of(rules, name, parameter);
    auto group = std::ranges::find(groups, key, &std::pair<GroupKey, NamedParameters>::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {key, {}});
    order.push_back(name);
    group->second.emplace_back(std::move(name), parameter);
  }
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  optimizers.reserve(groups.size());
  for (auto& [key, members] : groups) optimizers.push_back(make_optimizer(with_group(plan, key), std::move(members)));
  return std::make_unique<GroupedOptimizer>(plan.args.at("lr").get<double>(), std::move(optimizers), std::move(order));
}

}  // namespace gputrain
