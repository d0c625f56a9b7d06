#include "data/loader.h"

#include "data/cuts.h"
#include "data/decode.h"
#include "data/prefetch.h"
#include "data/transforms.h"
#include "util/error.h"
#include "util/text.h"

namespace gputrain {
namespace {

// workers = 0: decodes in next_step()'s caller.
class DirectLoader : public Loader {
 public:
  explicit DirectLoader(LoaderParts parts)
      : decoder_(std::move(parts.decoder)), cuts_(std::move(parts.cuts)), place_(*cuts_) {}

  int64_t steps_per_epoch() const override { return cuts_->steps(); }
  void seek(int64_t epoch, int64_t step) override { place_.seek(epoch, step); }
  bool ready() override { return true; }
  int64_t next_samples() const override { return place_.samples(); }
  void cancel() override {}  // nothing here waits

  std::optional<std::vector<Batch>> next_step() override {
    const int64_t count = place_.micro_batches();
    if (buffers_.size() < static_cast<size_t>(count)) buffers_.resize(static_cast<size_t>(count));
    std::vector<Batch> batches;
    for (int64_t i = 0; i < count; ++i) {
      Buffer& buffer = buffers_[static_cast<size_t>(i)];
      if (!buffer.inputs.defined() || buffer.in_use()) buffer = decoder_->make_buffer(cuts_->most_rows());
      auto ids = decoder_->decode(place_.epoch(), cuts_->micro_batch(place_.step(), i), buffer, scratch_);
      batches.push_back(Decoder::make_batch(buffer, std::move(ids)));
    }
    place_.advance();
    return batches;
  }

 private:
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Cuts> cuts_;
  Place place_;
  std::vector<Buffer> buffers_;
  Decoder::Scratch scratch_;
};

LoaderParts make_parts(const Source& source, const std::vector<Named>& transforms, const LoaderOptions& options) {
  GP_CHECK(options.shard.count >= 1 && options.shard.index >= 0 && options.shard.index < options.shard.count,
           "no such shard");
  GP_CHECK(options.global_batch >= 1 && options.micro_batch >= 0 && options.workers >= 0 && options.prefetch >= 1,
           "loader options");
  auto pipeline = make_pipeline(transforms, {source.sample_shape(), source.sample_type()},
                                {options.augment, options.seed, options.float_type});
  return {std::make_unique<Decoder>(source, std::move(pipeline), options), nullptr};
}

std::unique_ptr<Loader> assemble(LoaderParts parts, const LoaderOptions& options) {
  if (options.workers == 0) return std::make_unique<DirectLoader>(std::move(parts));
  return make_prefetching_loader(std::move(parts), options.workers, options.prefetch);
}

}  // namespace

std::unique_ptr<Loader> make_loader(const Source& source, const std::vector<Named>& transforms,
                                    const LoaderOptions& options) {
  LoaderParts parts = make_parts(source, transforms, options);
  parts.cuts = make_training_cuts(source.size(), options);
  if (parts.cuts->steps() == 0) {
    throw Error(ErrorKind::kData,
                "the training set has " + plural(source.size(), "sample") + ", fewer than one global batch of " +
                    std::to_string(options.global_batch) + ", and tail: drop leaves nothing of it",
                "", "set data.tail: use, or a smaller train.global_batch");
  }
  return assemble(std::move(parts), options);
}

std::unique_ptr<Loader> make_eval_loader(const Source& source, const std::vector<Named>& transforms,
                                         const LoaderOptions& options) {
  LoaderOptions ordered = options;
  ordered.shuffle = ordered.augment = false;
  LoaderParts parts = make_parts(source, transforms, ordered);
  parts.cuts = make_evaluation_cuts(source.size(), ordered);
  return assemble(std::move(parts), ordered);
}

}  // namespace gputrain
