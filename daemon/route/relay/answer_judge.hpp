#pragma once

#include <string>
#include <string_view>

#include "daemon/route/control/telemetry.hpp"
#include "daemon/route/http/operations.hpp"
#include "daemon/route/http/sse_scan.hpp"

namespace driftgate::route {

/// Follows the answer of an engine and says how it ended, by the definition of `error_rate` in
/// docs/design/measurement.md, "Registry of names". The same judge for users' and for mirrored requests. Of
/// an answer that is not read only the status and the framing are judged.
class AnswerJudge {
 public:
  /// Larger plain answers are passed on without being read as JSON.
  static constexpr std::size_t kMaxJudgedBodyBytes = 8u << 20;

  explicit AnswerJudge(bool stream_asked, ApiShape shape = ApiShape::completion)
      : stream_asked_(stream_asked), shape_(shape), events_(shape) {}

  /// The engine was shown a key of its own: when it refuses that (401, 403) it has failed, and not the
  /// client. Before the head.
  void keyed() { keyed_ = true; }
  /// The head came at `now_ms` after the request was accepted.
  void head(int status, std::string_view content_type, double now_ms);
  /// A streamed answer: parts are passed on as they come. Otherwise the whole body is judged at its end.
  [[nodiscard]] bool streamed() const { return streamed_; }
  [[nodiscard]] int status() const { return status_; }
  void part(std::string_view bytes, double now_ms);
  /// Its first byte came after the engine's limit for it, or did not come: a failure, however good the answer
  /// is. Before end().
  void late() { late_ = true; }
  /// The answer is over: `why` is a reason of Exchange, empty for an end in good order; `body` is the
  /// whole body of an answer that is not streamed.
  void end(std::string_view why, std::string_view body, double now_ms);

  /// The answer itself is no failure: it may be passed on, late or not. Valid after end().
  [[nodiscard]] bool usable() const { return usable_; }
  /// Outcome, reason and times; valid after end().
  [[nodiscard]] const Ending& ending() const { return ending_; }
  /// The answer as one side of a mirrored pair.
  [[nodiscard]] MirroredPair::Side side(std::string body) const;
  /// The stream reached its last event: whatever follows does not matter to anyone.
  [[nodiscard]] bool complete() const { return streamed_ && events_.done(); }

 private:
  void judge(std::string_view why, std::string_view body);
  void judge_stream(std::string_view why);
  void judge_whole(std::string_view body);
  void fail(std::string reason);

  const bool stream_asked_;
  const ApiShape shape_;
  bool keyed_ = false;
  bool streamed_ = false;
  bool late_ = false;
  bool usable_ = false;
  int status_ = 0;
  SseScan events_;
  Ending ending_{.outcome = Outcome::failed, .reason = {}};
};

}  // namespace driftgate::route
