#pragma once

#include <unistd.h>

#include <utility>

namespace driftgate::base {

/// Owns a file descriptor and closes it. Move-only; -1 stands for none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  /// Closes what it owned before.
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    const int fd = other.release();
    reset();
    fd_ = fd;
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  /// Gives the descriptor away.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace driftgate::base
