#pragma once
// From a data set to batches: Source -> order -> Loader.
//
// The path of a sample: a position of an epoch -> SampleOrder -> id -> Source::read -> Pipeline (data/transforms.h) ->
// row of a Batch.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "spec/plan.h"
#include "spec/shares.h"
#include "util/json.h"
#include "util/shard.h"

namespace gputrain {

// A micro-batch on the host. `inputs` [n, ...], `targets` [n, ...]; n >= 1. Row i is sample ids[i].
struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
  std::vector<int64_t> ids;
};

// A random-access set of samples. Thread-safe: the loader's workers call it at the same time.
class Source {
 public:
  virtual ~Source() = default;
  virtual int64_t size() const = 0;
  // Shape and dtype of one raw sample, before transforms. Images are uint8 [C, H, W]; raw arrays are what the spec
  // says.
  virtual std::vector<int64_t> sample_shape() const = 0;
  virtual at::ScalarType sample_type() const = 0;
  virtual at::ScalarType target_type() const = 0;         // int64 for labels, tokens and masks
  virtual std::vector<int64_t> target_shape() const = 0;  // {} for class labels
  // Set where a target is a mask: int64 classes of the sample's pixels. It goes through the sample's flips and crops;
  // what these add around the image gets this value.
  virtual std::optional<int64_t> mask_padding() const { return std::nullopt; }
  // Copies raw sample `id` into `sample` and its target into `target` (contiguous, of the types above).
  // Error(kData) names file and sample.
  virtual void read(int64_t id, void* sample, void* target) const = 0;
  // Called before each micro-batch: Error(kData) when a file that read() takes from a memory map has become shorter,
  // which would otherwise end the process by SIGBUS.
  virtual void check_unchanged() const {}
  // What a resume must find unchanged: {format, samples, shape, dtype, bytes and a hash of each file's size and a
  // sample of its content}; no paths, no times. Compressed or not makes no difference. Reads at most 4 MiB a file.
  virtual Json fingerprint() const = 0;
};

// What the run makes of the data.
struct SourceOptions {
  Task task = Task::kClassification;
  std::optional<int64_t> classes;       // labels, mask values and tokens are below it; nullopt: not checked
  std::optional<int64_t> ignore_index;  // segmentation, language_model: targets may have this value besides
};

// Opens and checks everything that can be checked without reading all of it. Error(kData) says what the file looks
// like. `role` is "data.train" or "data.val", for messages. Labels, masks and tokens are checked against the classes:
// here where that is cheap (up to 64 MiB), else when the sample is read. Error(kSpec) for an unknown format, a missing
// argument, or data that the task cannot use.
std::unique_ptr<Source> open_source(const DataSourcePlan& plan, const std::string& role,
                                    const SourceOptions& options = {});
// The formats that open_source knows: the catalog's names, in its order.
std::vector<std::string> format_names();

// Sample id at a position of an epoch: a permutation of [0, size) keyed by (seed, epoch), O(1) memory (Feistel network
// with cycle walking). Rank and worker counts never enter.
class SampleOrder {
 public:
  SampleOrder(int64_t size, uint64_t seed, int64_t epoch, bool shuffle = true);
  int64_t operator[](int64_t position) const;

 private:
  int64_t size_;
  uint64_t key_;
  int half_bits_;
  bool shuffle_;
};

struct LoaderOptions {
  Shard shard;  // rank, world size
  int64_t global_batch = 1;
  int64_t micro_batch = 0;  // 0 = the rank's whole share
  bool drop_tail = false;
  bool shuffle = true;
  bool augment = true;  // random transforms use (seed, epoch, sample id)
  uint64_t seed = 1;
  int workers = 1;   // decode threads; 0 = decode in next()'s caller
  int prefetch = 4;  // micro-batches in the ring; raised to those of one step, which are handed out together
  // Makes the batch buffers: page-locked ones come from the CUDA back end (pin_memory() throws on a CPU-only machine).
  // Called only on the thread that makes or drives the loader, never on a decode thread: a decode thread has no current
  // device. Empty = plain.
  std::function<at::Tensor(at::IntArrayRef sizes, at::ScalarType type)> allocate;
  bool pin_memory = false;                 // use `allocate`; plain memory when false, or when there is no `allocate`
  at::ScalarType float_type = at::kFloat;  // of floating-point inputs and targets (kDouble under fp64)
};

// Delivers this rank's micro-batches of (epoch, step in epoch) in order. One consumer thread; decode threads inside,
// started by the first seek(), ready() or next_step(), so a loader that is sought at once decodes nothing in vain. The
// destructor joins them.
//
// Batches stay valid until the next next_step() call: then their memory is filled again, unless a tensor that views it
// is still held (such memory is left to its holder). Copies to a device must be finished by then.
class Loader {
 public:
  virtual ~Loader() = default;
  virtual int64_t steps_per_epoch() const = 0;
  // Continues at the given place; drops what was prefetched. The one way to position a loader (O(1), nothing is
  // replayed).
  virtual void seek(int64_t epoch, int64_t step_in_epoch) = 0;
  // All micro-batches of the next step of this rank, in order; empty vector when this rank has no sample in it. Crosses
  // into the next epoch by itself. Blocks; waits are interruptible: returns nullopt as soon as cancel() was called and
  // the step is not ready (with workers = 0 it always is). Throws what a decode thread threw (Error(kData)). After
  // nullopt or an exception the place is unchanged.
  virtual std::optional<std::vector<Batch>> next_step() = 0;
  // Is the next step decoded already (next_step() would not block)? True too when it would throw, or with workers = 0.
  virtual bool ready() = 0;
  // This rank's samples in the next step.
  virtual int64_t next_samples() const = 0;
  // Called from any thread (not a signal handler): makes a blocked next_step() return nullopt. Lasts until the next
  // seek().
  virtual void cancel() = 0;
};

// Transforms in plan order; see data/transforms.h. The source must outlive the loader. Error(kData) when drop_tail
// leaves no step, Error(kSpec) for transforms that do not fit the source.
std::unique_ptr<Loader> make_loader(const Source& source, const std::vector<Named>& transforms,
                                    const LoaderOptions& options);

// Evaluation: every sample once, in order, shard by contiguous ranges, nothing random. A step is one batch of
// micro_batch samples (0 = global_batch / ranks). All ranks have the same steps_per_epoch(): a rank whose range is used
// up gets empty vectors.
std::unique_ptr<Loader> make_eval_loader(const Source& source, const std::vector<Named>& transforms,
                                         const LoaderOptions& options);

}  // namespace gputrain
