#include "train/flops.h"

#include <string_view>
#include <unordered_map>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

namespace gputrain {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

int64_t product(at::IntArrayRef sizes) {
  int64_t total = 1;
  for (const int64_t size : sizes) total *= size;
  return total;
}

at::IntArrayRef sizes_of(const c10::IValue& value) {
  return value.toTensor().sizes();
}

// [..., m, k] x [..., k, n]
int64_t matrix_product(const c10::IValue& left, const c10::IValue& right) {
  return 2 * product(sizes_of(left)) * sizes_of(right).back();
}

// query [..., length, width] x key [..., keys, width], then the weights x value [..., keys, value width].
int64_t attention(const c10::IValue& query, const c10::IValue& key, const c10::IValue& value) {
  const at::IntArrayRef q = sizes_of(query);
  const int64_t keys = sizes_of(key)[sizes_of(key).size() - 2];
  return 2 * product(q.slice(0, q.size() - 1)) * keys * (q.back() + sizes_of(value).back());
}

// What is known of an operation as it starts: later its inputs are gone.
struct Work {
  int64_t flops = 0;
  bool each_position = false;  // of the output [n, channels, ...]: a convolution's size is known at its end only
};

// Each output position (of a transposed convolution: input position) meets the whole kernel; the weight is
// [out, in / groups, ...].
Work convolution(Inputs inputs) {
  constexpr size_t kTransposed = 6;
  const at::IntArrayRef input = sizes_of(inputs[0]);
  const int64_t kernel = 2 * input.front() * product(sizes_of(inputs[1]));
  if (!inputs[kTransposed].toBool()) return {kernel, true};
  return {kernel * product(input.slice(2)), false};
}

using Formula = Work (*)(Inputs inputs);

const std::unordered_map<std::string_view, Formula>& formulas() {
  static const Formula mm = [](Inputs in) { return Work{matrix_product(in[0], in[1])}; };
  static const Formula addmm = [](Inputs in) { return Work{matrix_product(in[1], in[2])}; };
  static const Formula sdpa = [](Inputs in) { return Work{attention(in[0], in[1], in[2])}; };
  static const std::unordered_map<std::string_view, Formula> table{{"aten::mm", mm},
                                                                   {"aten::bmm", mm},
                                                                   {"aten::addmm", addmm},
                                                                   {"aten::baddbmm", addmm},
                                                                   {"aten::convolution", convolution},
                                                                   {"aten::_convolution", convolution},
                                                                   {"aten::scaled_dot_product_attention", sdpa}};
  return table;
}

// Of the thread that counts. What runs inside a counted operation is that operation.
struct Count {
  int64_t flops = 0;
  int depth = 0;
};
thread_local Count* counting = nullptr;

struct Started : at::ObserverContext {
  explicit Started(const Work& its_work) : work(its_work) {}
  Work work;
};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (counting == nullptr) return nullptr;
  const auto formula = formulas().find(function.name());
  if (formula == formulas().end()) return nullptr;
  const bool outermost = counting->depth++ == 0;
  return std::make_unique<Started>(outermost ? formula->second(function.inputs()) : Work{});
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (counting == nullptr || context == nullptr) return;
  --counting->depth;
  const Work& work = dynamic_cast<const Started&>(*context).work;
  const std::vector<c10::IValue>& outputs = function.outputs();
  if (outputs.empty()) return;  // it threw
  counting->flops += work.flops * (work.each_position ? product(sizes_of(outputs.front()).slice(2)) : 1);
}

class Counting {
 public:
  Counting() {
    counting = &count_;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Counting() {
    at::removeCallback(handle_);
    counting = nullptr;
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  int64_t flops() const { return count_.flops; }

 private:
  Count count_;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace

int64_t count_flops(const std::function<void()>& body) {
  const at::RecordFunctionGuard enabled(/*is_enabled=*/true);
  const Counting scope;
  body();
  return scope.flops();
}

std::optional<double> total_peak_flops(Comm& comm, std::optional<double> mine) {
  at::Tensor sums = at::zeros({2}, at::kDouble);
  if (mine) {
    sums[0] = *mine;
    sums[1] = 1;
  }
  comm.all_reduce_sum(sums);
  if (sums[1].item<double>() < comm.world_size()) return std::nullopt;
  return sums[0].item<double>();
}

}  // namespace gputrain
