#include "dist/reducer_backends.h"

namespace gputrain {
namespace {

class SingleReducer : public GradReducer {
 public:
  explicit SingleReducer(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}

  void zero_gradients() override { zero_in_place(parameters_); }
  void begin_micro_batch(bool) override {}
  void finish() override {}
  Json layout() const override { return Json::array(); }
  int64_t all_reduce_count() const override { return 0; }

 private:
  std::vector<at::Tensor> parameters_;
};

}  // namespace

std::unique_ptr<GradReducer> make_single_reducer(ReducerInput input) {
  return std::make_unique<SingleReducer>(std::move(input.parameters));
}

}  // namespace gputrain
