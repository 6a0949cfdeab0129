#pragma once
/// Errors of the program: one sentence that says what, where and what to do.

#include <expected>
#include <string>

namespace tinylm {

struct Failure {
  std::string message;
};

template <typename T>
using Result = std::expected<T, Failure>;

inline std::unexpected<Failure> fail(std::string message) {
  return std::unexpected(Failure{std::move(message)});
}

}  // namespace tinylm
