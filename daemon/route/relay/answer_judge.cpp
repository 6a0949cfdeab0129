#include "daemon/route/relay/answer_judge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/base/http_text.hpp"
#include "daemon/route/http/answer_shapes.hpp"
#include "daemon/route/http/http_head.hpp"

namespace driftgate::route {

void AnswerJudge::head(int status, std::string_view content_type, double now_ms) {
  status_ = status;
  const auto* const end = std::ranges::find_if(
      content_type, [](char byte) { return byte == ';' || byte == ' ' || byte == '\t'; });
  const std::string_view type(content_type.data(), static_cast<std::size_t>(end - content_type.begin()));
  // Whether a request that nobody read asked for a stream shows in its answer alone.
  const bool expected = stream_asked_ || shape_ == ApiShape::unread;
  streamed_ = expected && status == 200 && base::equal_ignoring_case(type, "text/event-stream");
  ending_.ttft_ms = now_ms;
}

void AnswerJudge::part(std::string_view bytes, double now_ms) {
  if (streamed_) events_.feed(bytes, now_ms);
}

void AnswerJudge::fail(std::string reason) {
  ending_.outcome = Outcome::failed;
  ending_.reason = std::move(reason);
}

void AnswerJudge::end(std::string_view why, std::string_view body, double now_ms) {
  ending_.outcome = Outcome::ok;
  ending_.reason.clear();
  ending_.total_ms = now_ms;
  ending_.inter_token_ms = events_.inter_token_ms();
  if (status_ == 0) ending_.ttft_ms = now_ms;
  if (streamed_ && events_.tokens() > 0) ending_.ttft_ms = events_.first_token_ms();
  judge(why, body);
  usable_ = ending_.outcome != Outcome::failed;
  if (late_ && ending_.outcome == Outcome::ok) fail("first_byte");
}

void AnswerJudge::judge(std::string_view why, std::string_view body) {
  const bool key_refused = keyed_ && (status_ == 401 || status_ == 403);
  const bool client_error = status_ != 429 && status_ >= 400 && status_ < 500 && !key_refused;
  const int least_bad = shape_ == ApiShape::unread ? 400 : 300;
  if (why.empty() && client_error) {
    ending_.outcome = Outcome::excluded;
    ending_.reason = fmt::format("status_{}", status_);
  } else if (status_ != 0 && !client_error && (status_ < 200 || status_ >= least_bad)) {
    fail(fmt::format("status_{}", status_));
  } else if (streamed_ && shape_ != ApiShape::unread) {
    judge_stream(why);
  } else if (!why.empty()) {
    fail(std::string(why));
  } else if (shape_ != ApiShape::unread && body.size() <= kMaxJudgedBodyBytes) {
    judge_whole(body);
  }
}

void AnswerJudge::judge_stream(std::string_view why) {
  const bool given_up = why == "timeout" || why == "stalled" || why == "first_byte" || why == "breaker_open";
  if (given_up && !events_.done()) return fail(std::string(why));
  if (events_.garbage()) return fail("bad_body");
  if (events_.failed()) return fail("failed_answer");
  if (!events_.done()) return fail("truncated_stream");
}

void AnswerJudge::judge_whole(std::string_view body) {
  const auto kind = stream_asked_ ? AnswerKind::garbage : read_answer(shape_, body);
  if (kind == AnswerKind::garbage) return fail("bad_body");
  if (kind == AnswerKind::failure) return fail("failed_answer");
}

MirroredPair::Side AnswerJudge::side(std::string body) const {
  const auto& [outcome, reason, retried, withheld, ttft_ms, inter_token_ms, total_ms] = ending_;
  return {status_, std::move(body), outcome == Outcome::ok ? "" : reason, ttft_ms, inter_token_ms, total_ms};
}

}  // namespace driftgate::route
