#include <sstream>

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "dist/agreement.h"
#include "dist/collective_error.h"
#include "dist/counting_process_group.h"
#include "dist/reducer_backends.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

// What DDP starts with: one bucket a dtype until the order of the gradients is known. A layout that stays is cut at
// once.
BucketLayout initial_layout(const ReducerInput& input) {
  const ReducerOptions& options = input.options;
  if (options.layout && !options.layout->empty()) return layout_from_json(*options.layout, input.parameters);
  if (!options.deterministic) return compute_layout(input.parameters, {std::numeric_limits<size_t>::max()});
  return compute_layout(input.parameters,
                        {static_cast<size_t>(options.first_bucket_bytes), static_cast<size_t>(options.bucket_bytes)});
}

std::unique_ptr<c10d::Reducer> make_inner(const ReducerInput& input, const BucketLayout& layout,
                                          c10::intrusive_ptr<c10d::ProcessGroup> group) {
  std::unordered_map<size_t, std::string> names;
  for (size_t i = 0; i < input.names.size(); ++i) names.emplace(i, input.names[i]);
  return std::make_unique<c10d::Reducer>(
      input.parameters, layout, std::move(group),
      /*expect_sparse_gradients=*/std::vector<bool>(input.parameters.size(), false), input.options.bucket_bytes,
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true, std::move(names),
      input.options.first_bucket_bytes, /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

class C10dReducer : public GradReducer {
 public:
  explicit C10dReducer(ReducerInput input)
      : parameters_(input.parameters),
        names_(input.names),
        rebuilds_(!input.options.deterministic && (!input.options.layout || input.options.layout->empty())),
        group_(make_counting_process_group(*input.comm->process_group(), input.options.on_all_reduce)) {
    const BucketLayout layout = initial_layout(input);
    // Ranks with different layouts would end each other from Gloo's network thread, past any catch.
    check_agreement(*input.comm, "the bucket layout", {dump_line(layout_to_json(layout))});
    for (size_t i = 0; i < parameters_.size(); ++i) index_of_[parameters_[i].unsafeGetTensorImpl()] = i;
    bucket_count_ = static_cast<int64_t>(layout.size());
    reducer_ = make_inner(input, layout, group_);
  }

  void zero_gradients() override { zero_in_place(parameters_); }

  // Without prepare_for_backward the gradients stay local, which is all that DDP's no_sync does.
  void begin_micro_batch(bool last) override {
    if (!last) return;
    counted_ = group_->all_reduces();
    reducer_->prepare_for_forward();
    reducer_->prepare_for_backward({});
  }

  void finish() override {
    if (group_->all_reduces() - counted_ != bucket_count_) throw_unreduced();
    if (rebuilds_) {
      rebuild();
    } else {
      // c10d notes the order of the gradients for a rebuild that never comes: 20 bytes a parameter and step, dropped
      // here.
      reducer_->reset_state();
    }
  }

  Json layout() const override {
    BucketLayout layout;
    for (const auto& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/false)) {
      auto& indices = layout.emplace_back();
      for (const auto& parameter : bucket.getParameters())
        indices.push_back(index_of_.at(parameter.unsafeGetTensorImpl()));
    }
    return layout_to_json(layout);
  }

  int64_t all_reduce_count() const override { return group_->all_reduces(); }

 private:
  // DDP does this before the second forward; here, so that a checkpoint of the first step names the layout of the
  // second.
  void rebuild() {
    if (!reducer_->should_rebuild_buckets()) return;
    run_collective("agreeing on the order of the buckets", [&] { reducer_->rebuild_buckets(); });
    bucket_count_ = static_cast<int64_t>(reducer_->get_grad_buckets(false).size());
  }

  // Backward is over and a bucket was not sent: c10d knows which gradients it still waits for.
  [[noreturn]] void throw_unreduced() {
    std::string reason = "backward reached no parameter";
    try {
      reducer_->check_finalized();
    } catch (const c10::Error& error) {
      reason = unreached_parameters(error.what_without_backtrace());
    }
    throw Error(
        ErrorKind::kSpec, reason, "model",
        "every trained parameter must take part in the loss of every step on every rank: change the model, or name "
        "them in model.freeze");
  }

  // c10d's message ends in "... did not receive grad for rank 1: 4 5" and a list of names in its debug mode only.
  std::string unreached_parameters(const std::string& message) const {
    const std::string before = "which did not receive grad for rank " + std::to_string(group_->getRank()) + ": ";
    const size_t found = message.find(before);
    if (found == std::string::npos) return message;
    std::istringstream indices(message.substr(found + before.size()));
    std::vector<std::string> unreached;
    for (size_t index = 0; indices >> index && index < names_.size();) unreached.push_back(names_[index]);
    return "no gradient reached " + join_words(unreached);
  }

  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  bool rebuilds_;
  c10::intrusive_ptr<CountingProcessGroup> group_;
  std::unordered_map<const c10::TensorImpl*, size_t> index_of_;
  std::unique_ptr<c10d::Reducer> reducer_;
  int64_t bucket_count_ = 0;
  int64_t counted_ = 0;
};

}  // namespace

std::unique_ptr<GradReducer> make_c10d_reducer(ReducerInput input) {
  return std::make_unique<C10dReducer>(std::move(input));
}

}  // namespace gputrain
