#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/route/http/operations.hpp"

namespace driftgate::route {

/// Watches a stream of server-sent events pass by: when tokens come, whether one is not what the API
/// promises, whether the stream reached its end. Never changes or holds back a byte.
class SseScan {
 public:
  explicit SseScan(ApiShape shape = ApiShape::completion) : shape_(shape) {}

  /// Longer lines are not judged.
  static constexpr std::size_t kMaxJudgedLineBytes = 256u << 10;

  /// `now_ms` is when these bytes came, on the caller's scale.
  void feed(std::string_view bytes, double now_ms);

  [[nodiscard]] bool done() const { return done_; }        ///< its last event came, such as `data: [DONE]`
  [[nodiscard]] bool garbage() const { return garbage_; }  ///< an event is not what the API promises
  [[nodiscard]] bool failed() const { return failed_; }    ///< an event says that the engine gave up
  [[nodiscard]] std::uint64_t tokens() const { return tokens_; }
  [[nodiscard]] double first_token_ms() const { return first_ms_; }  ///< when tokens() > 0
  /// Mean gap between tokens; NaN for fewer than two.
  [[nodiscard]] double inter_token_ms() const;

 private:
  void end_of_line(std::string_view line, double now_ms);
  void data_event(std::string_view payload, double now_ms);

  void count_token(double now_ms);

  ApiShape shape_;
  std::string line_;
  bool too_long_ = false;
  bool done_ = false;
  bool garbage_ = false;
  bool failed_ = false;
  std::uint64_t tokens_ = 0;
  double first_ms_ = 0;
  double last_ms_ = 0;
};

}  // namespace driftgate::route
