// Decode threads claim micro-batches in order and fill the slots of a ring; the consumer takes a step's slots once all
// are decoded.
//
// A wake-up (10 to 40 us of the waker's time) costs more than decoding a small batch. So where decoding is quick,
// threads that found the ring full sleep until it is nearly empty, and then one is woken; where it is slow, all are, at
// once. The consumer is woken when the whole step that it waits for is there.
#include "data/prefetch.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <signal.h>

#include "util/error.h"

namespace gputrain {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSlow = std::chrono::microseconds(500);

// Signals belong to the main thread: one that a decode thread took would not interrupt the main thread's system call.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

class PrefetchingLoader : public Loader {
 public:
  PrefetchingLoader(LoaderParts parts, int workers, int prefetch)
      : decoder_(std::move(parts.decoder)),
        cuts_(std::move(parts.cuts)),
        workers_(workers),
        ring_(static_cast<size_t>(std::max<int64_t>(prefetch, cuts_->most_micro_batches()))),
        place_(*cuts_),
        cursor_(*cuts_) {
    // The ring's and those of the step in the consumer's hands.
    const int64_t buffers = cuts_->empty() ? 0 : static_cast<int64_t>(ring_.size()) + cuts_->most_micro_batches();
    for (int64_t i = 0; i < buffers; ++i) free_.push_back(decoder_->make_buffer(cuts_->most_rows()));
    cursor_.seek(0, 0);
  }

  ~PrefetchingLoader() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int64_t steps_per_epoch() const override { return cuts_->steps(); }
  void seek(int64_t epoch, int64_t step) override;
  std::optional<std::vector<Batch>> next_step() override;
  bool ready() override;
  int64_t next_samples() const override { return place_.samples(); }
  void cancel() override;

 private:
  struct Slot {
    bool done = false;
    Buffer buffer;
    std::vector<int64_t> ids;
    std::exception_ptr error;
  };

  void start_threads();
  void decode_until_stopped();
  void decode_one(std::unique_lock<std::mutex>& lock, Decoder::Scratch& scratch);
  void take_back_handed_out();
  std::vector<Batch> take(int64_t count);

  // The rest needs mutex_.
  Slot& slot(int64_t number) { return ring_[static_cast<size_t>(number) % ring_.size()]; }
  int64_t in_ring() const { return claimed_ - taken_; }
  bool can_claim() const { return !cursor_.done() && in_ring() < static_cast<int64_t>(ring_.size()) && !free_.empty(); }
  // Is all of the next step there, or an error before it?
  bool step_ready() {
    const int64_t count = place_.micro_batches();
    for (int64_t i = 0; i < count; ++i) {
      if (taken_ + i >= claimed_ || !slot(taken_ + i).done) return false;
      if (slot(taken_ + i).error) return true;
    }
    return true;
  }

  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Cuts> cuts_;
  const int workers_;
  std::vector<std::thread> threads_;  // consumer only
  std::vector<Buffer> handed_out_;    // consumer only

  std::mutex mutex_;
  std::condition_variable work_;     // a slot is free, or stopping
  std::condition_variable decoded_;  // the step that the consumer waits for is ready, or cancelled
  std::vector<Slot> ring_;
  std::vector<Buffer> free_;
  Place place_;          // the next step to hand out; written by the consumer only
  Cursor cursor_;        // the next micro-batch to claim
  int64_t claimed_ = 0;  // micro-batches since the last seek: number n lives in slot n % ring
  int64_t taken_ = 0;
  int64_t generation_ = 0;  // of seeks: what was claimed before one is thrown away
  bool slow_ = true;        // did the last micro-batch take longer than a wake-up by far?
  bool consumer_waits_ = false;
  bool cancelled_ = false;
  bool stopping_ = false;
};

void PrefetchingLoader::start_threads() {
  if (!threads_.empty() || cuts_->empty()) return;
  const SignalsBlocked guard;
  for (int i = 0; i < workers_; ++i) {
    try {
      threads_.emplace_back([this] { decode_until_stopped(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::kEnvironment, std::string("cannot start a decode thread: ") + error.what(), "",
                  "raise the limit of threads (ulimit -u), or lower data.workers");
    }
    pthread_setname_np(threads_.back().native_handle(), "gp-data");
  }
}

void PrefetchingLoader::decode_until_stopped() {
  Decoder::Scratch scratch;
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || can_claim(); });
    if (stopping_) return;
    decode_one(lock, scratch);
  }
}

void PrefetchingLoader::decode_one(std::unique_lock<std::mutex>& lock, Decoder::Scratch& scratch) {
  const int64_t number = claimed_++, generation = generation_, epoch = cursor_.epoch();
  const Range positions = cursor_.positions();
  cursor_.advance();
  Slot result;
  result.done = true;
  result.buffer = std::move(free_.back());
  free_.pop_back();
  lock.unlock();
  const auto begin = Clock::now();
  try {
    result.ids = decoder_->decode(epoch, positions, result.buffer, scratch);
  } catch (...) {
    result.error = std::current_exception();
  }
  const bool slow = Clock::now() - begin > kSlow;
  lock.lock();
  slow_ = slow;
  if (generation != generation_) {
    free_.push_back(std::move(result.buffer));
    work_.notify_one();
    return;
  }
  slot(number) = std::move(result);
  if (consumer_waits_ && step_ready()) decoded_.notify_one();
}

void PrefetchingLoader::seek(int64_t epoch, int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    place_.seek(epoch, step);
    cursor_.seek(epoch, step);
    ++generation_;
    claimed_ = taken_ = 0;
    cancelled_ = false;
    for (Slot& slot : ring_) {
      if (slot.done) free_.push_back(std::move(slot.buffer));
      slot = Slot{};
    }
  }
  start_threads();
  work_.notify_all();
}

bool PrefetchingLoader::ready() {
  start_threads();
  const std::lock_guard lock(mutex_);
  if (step_ready()) return true;
  work_.notify_all();
  return false;
}

void PrefetchingLoader::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  decoded_.notify_all();
}

// Makes new memory for what the consumer still holds; here, not on a decode thread (see LoaderOptions::allocate).
void PrefetchingLoader::take_back_handed_out() {
  for (Buffer& buffer : handed_out_) {
    if (buffer.in_use()) buffer = decoder_->make_buffer(cuts_->most_rows());
  }
}

std::vector<Batch> PrefetchingLoader::take(int64_t count) {
  std::vector<Batch> batches;
  batches.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    Slot& from = slot(taken_ + i);
    if (from.error) std::rethrow_exception(from.error);
  }
  for (int64_t i = 0; i < count; ++i) {
    Slot& from = slot(taken_ + i);
    batches.push_back(Decoder::make_batch(from.buffer, std::move(from.ids)));
    handed_out_.push_back(std::move(from.buffer));
    from = Slot{};
  }
  taken_ += count;
  place_.advance();
  return batches;
}

std::optional<std::vector<Batch>> PrefetchingLoader::next_step() {
  start_threads();
  take_back_handed_out();
  std::unique_lock lock(mutex_);
  for (Buffer& buffer : handed_out_) free_.push_back(std::move(buffer));
  handed_out_.clear();
  if (!step_ready()) {
    consumer_waits_ = true;
    work_.notify_all();
    decoded_.wait(lock, [this] { return cancelled_ || step_ready(); });
    consumer_waits_ = false;
    if (!step_ready()) return std::nullopt;
  }
  std::vector<Batch> batches = take(place_.micro_batches());
  const bool slow = slow_, low = in_ring() <= static_cast<int64_t>(ring_.size() / 4);
  lock.unlock();
  if (slow) {
    work_.notify_all();
  } else if (low) {
    work_.notify_one();
  }
  return batches;
}

}  // namespace

std::unique_ptr<Loader> make_prefetching_loader(LoaderParts parts, int workers, int prefetch) {
  return std::make_unique<PrefetchingLoader>(std::move(parts), workers, prefetch);
}

}  // namespace gputrain
