#include "daemon/base/unique_fd.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <utility>

using driftgate::base::UniqueFd;

namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

UniqueFd open_null() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

TEST_CASE("a descriptor is closed when its owner ends, and only once") {
  int number = -1;
  {
    UniqueFd first = open_null();
    REQUIRE(first);
    number = first.get();
    const UniqueFd second = std::move(first);
    CHECK_FALSE(first);
    CHECK(second.get() == number);
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("assigning closes at once what was owned before") {
  UniqueFd kept = open_null();
  UniqueFd other = open_null();
  const int closed = kept.get();
  const int number = other.get();
  kept = std::move(other);
  CHECK(kept.get() == number);
  CHECK_FALSE(other);
  CHECK_FALSE(is_open(closed));
  kept = UniqueFd();
  CHECK_FALSE(is_open(number));
}

TEST_CASE("assigning a descriptor to itself keeps it open") {
  UniqueFd fd = open_null();
  UniqueFd& same = fd;
  fd = std::move(same);
  CHECK(is_open(fd.get()));
}

TEST_CASE("a released descriptor stays open and belongs to the caller") {
  UniqueFd owner = open_null();
  const int number = owner.release();
  CHECK_FALSE(owner);
  owner.reset();
  CHECK(is_open(number));
  const UniqueFd back(number);
}
