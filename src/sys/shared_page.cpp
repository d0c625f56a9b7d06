#include "sys/shared_page.h"

#include <cerrno>
#include <string>

#include <sys/mman.h>
#include <sys/stat.h>

#include "util/error.h"

namespace gputrain {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kInternal, "shared page: " + what + ": " + errno_text(errno));
}

}  // namespace

SharedPage SharedPage::create(size_t bytes) {
  UniqueFd fd(memfd_create("gputrain-page", MFD_CLOEXEC));
  if (!fd) fail("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) fail("ftruncate");
  return map(std::move(fd), bytes);
}

SharedPage SharedPage::map(UniqueFd fd, size_t bytes) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) fail("fstat");
  // Touching memory beyond the end of the file would be a SIGBUS.
  if (status.st_size < static_cast<off_t>(bytes)) {
    throw Error(ErrorKind::kInternal, "shared page: descriptor " + std::to_string(fd.get()) + " has " +
                                          std::to_string(status.st_size) + " bytes, not " + std::to_string(bytes));
  }
  SharedPage page;
  page.data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (page.data_ == MAP_FAILED) {
    page.data_ = nullptr;
    fail("mmap");
  }
  page.fd_ = std::move(fd);
  page.bytes_ = bytes;
  return page;
}

SharedPage::SharedPage(SharedPage&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

SharedPage& SharedPage::operator=(SharedPage&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedPage::~SharedPage() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace gputrain
