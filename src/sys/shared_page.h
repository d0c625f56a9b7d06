#pragma once
#include <cstddef>

#include "sys/fd.h"

namespace gputrain {

// Zero-filled memory shared between processes over a descriptor (memfd). Unmapped by the destructor. Not copyable.
class SharedPage {
 public:
  SharedPage() = default;
  static SharedPage create(size_t bytes);            // a new one
  static SharedPage map(UniqueFd fd, size_t bytes);  // one made by another process; Error(kInternal) when it is smaller
  SharedPage(SharedPage&& other) noexcept;
  SharedPage& operator=(SharedPage&& other) noexcept;
  ~SharedPage();

  void* data() const { return data_; }  // nullptr when default-constructed
  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }  // the mapping stays

 private:
  UniqueFd fd_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace gputrain
