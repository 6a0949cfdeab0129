#include "daemon/base/poll_until.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/base/unique_fd.hpp"

using driftgate::base::poll_until;
using driftgate::base::UniqueFd;
using Clock = std::chrono::steady_clock;

TEST_CASE("a wait ends when the descriptor is ready or the time is over") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const auto begin = Clock::now();
  CHECK(poll_until(read_end.get(), POLLIN, begin + std::chrono::milliseconds(30)) == 0);
  CHECK(Clock::now() - begin >= std::chrono::milliseconds(30));
  CHECK(poll_until(read_end.get(), POLLIN, begin) == 0);
  REQUIRE(::write(write_end.get(), "x", 1) == 1);
  CHECK(poll_until(read_end.get(), POLLIN, Clock::time_point::max()) > 0);
  CHECK(poll_until(read_end.get(), POLLIN, begin) > 0);
}

TEST_CASE("a wait that is cancelled fails, also when its descriptor is ready") {
  int ends[2], cancels[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::pipe(cancels) == 0);
  const UniqueFd read_end(ends[0]), write_end(ends[1]), cancel(cancels[0]), cancelling(cancels[1]);
  CHECK(poll_until(read_end.get(), POLLIN, Clock::now(), cancel.get()) == 0);
  REQUIRE(::write(cancelling.get(), "x", 1) == 1);
  CHECK(poll_until(read_end.get(), POLLIN, Clock::time_point::max(), cancel.get()) < 0);
  CHECK(errno == ECANCELED);
  REQUIRE(::write(write_end.get(), "x", 1) == 1);
  CHECK(poll_until(read_end.get(), POLLIN, Clock::time_point::max(), cancel.get()) < 0);
}
