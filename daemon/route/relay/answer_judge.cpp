#include "daemon/route/relay/answer_judge.hpp"

#include <fmt/format.h>

#include "daemon/route/http/body_json.hpp"
#include "daemon/route/http/http_head.hpp"

namespace driftgate::route {

void AnswerJudge::head(int status, std::string_view content_type, double now_ms) {
  status_ = status;
  const auto type = content_type.substr(0, content_type.find_first_of("; "));
  streamed_ = stream_asked_ && status == 200 && equals_ignoring_case(type, "text/event-stream");
  ttft_ms_ = now_ms;
}

void AnswerJudge::part(std::string_view bytes, double now_ms) {
  if (streamed_) events_.feed(bytes, now_ms);
}

void AnswerJudge::fail(std::string reason) {
  outcome_ = Outcome::failed;
  reason_ = std::move(reason);
}

void AnswerJudge::end(std::string_view why, std::string_view body, double now_ms) {
  total_ms_ = now_ms;
  if (status_ == 0) ttft_ms_ = now_ms;
  if (streamed_ && events_.tokens() > 0) ttft_ms_ = events_.first_token_ms();
  outcome_ = Outcome::ok;
  reason_.clear();
  if (why.empty() && status_ != 429 && status_ >= 400 && status_ < 500) {
    outcome_ = Outcome::excluded;
    reason_ = fmt::format("status_{}", status_);
  } else if (status_ != 0 &&
             (status_ < 200 || status_ == 429 || status_ >= 500 || (status_ >= 300 && status_ < 400))) {
    fail(fmt::format("status_{}", status_));
  } else if (streamed_) {
    if (why == "timeout" && !events_.done()) return fail("timeout");
    if (events_.garbage()) return fail("bad_body");
    if (!events_.done()) return fail("truncated_stream");
  } else if (!why.empty()) {
    fail(std::string(why));
  } else if (body.size() <= kMaxJudgedBodyBytes && (stream_asked_ || !is_completion(body))) {
    fail("bad_body");
  }
}

}  // namespace driftgate::route
