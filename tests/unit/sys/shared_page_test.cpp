#include "sys/shared_page.h"

#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "util/error.h"

namespace gputrain {
namespace {

TEST(SharedPageTest, AnotherProcessSeesTheSameBytes) {
  SharedPage page = SharedPage::create(4096);
  for (int i = 0; i < 4096; ++i) ASSERT_EQ(static_cast<char*>(page.data())[i], 0);
  const pid_t child = fork();
  if (child == 0) {
    const SharedPage mapped = SharedPage::map(UniqueFd(dup(page.fd())), 4096);
    std::strcpy(static_cast<char*>(mapped.data()), "from the child");
    _exit(0);
  }
  page.close_fd();
  waitpid(child, nullptr, 0);
  EXPECT_STREQ(static_cast<char*>(page.data()), "from the child") << "the page outlives its writer and our descriptor";
}

TEST(SharedPageTest, MovesOwnership) {
  SharedPage page = SharedPage::create(64);
  void* const data = page.data();
  SharedPage moved(std::move(page));
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(page.data(), nullptr);
  SharedPage assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.data(), data);
  std::memset(assigned.data(), 1, 64);
}

TEST(SharedPageTest, TooSmallOrForeignDescriptorIsAnError) {
  SharedPage small = SharedPage::create(16);
  EXPECT_THROW(SharedPage::map(UniqueFd(dup(small.fd())), 4096), Error);
  EXPECT_THROW(SharedPage::map(UniqueFd(), 16), Error);
  EXPECT_THROW(SharedPage::map(UniqueFd(open("/dev/null", O_RDWR)), 16), Error);
}

}  // namespace
}  // namespace gputrain
