#include <fmt/format.h>

#include <utility>

#include "daemon/route/relay/session.hpp"

// How one engine is asked and its answer passed on; session.cpp decides which and what follows.
namespace driftgate::route {
namespace {

Framing framing_for(const ResponseHead& answer, int client_minor_version) {
  if (answer.content_length && !answer.chunked) return Framing::length;
  return client_minor_version == 1 ? Framing::chunked : Framing::until_close;
}

}  // namespace

Task<void> Session::attempt(FirstByteWait& wait, bool discardable, Attempt& out) {
  const auto& engine = wait.engine().endpoint();
  const auto head = engine_request_head(request_.head, engine.authority, request_.body.size(), core_.mark);
  const ExchangeLimits limits{
      std::chrono::steady_clock::now() + std::chrono::milliseconds(core_.options.request_deadline_ms),
      std::chrono::milliseconds(core_.options.between_ms)};
  Exchange exchange(context_.pool, context_.deadlines, engine, limits, &wait);
  exchange_ = &exchange;
  client_.watch(shared_from_this());
  std::string why = co_await exchange.start(head, request_.body);
  if (why.empty()) {
    out.judge.head(exchange.head().status, exchange.head().find("content-type").value_or(""), elapsed_ms());
    if (out.judge.streamed()) {
      why = co_await relay(exchange, out);
    } else {
      why = co_await collect(exchange, out);
    }
  }
  exchange_ = nullptr;
  if (wait.was_late()) out.judge.late();
  judge_end(out, why);
  const bool whole = why.empty() && !out.judge.streamed() && !out.begun && !out.client_gone;
  if (whole && !(discardable && !out.judge.usable())) {
    co_await deliver(exchange.head(), out);
  }
  // A broken answer ends with its connection: the client must not take it for a whole one.
  if (out.begun && !why.empty()) keep_ = false;
}

/// Reads a plain answer as a whole, so that it can be judged before its first byte is passed on; one
/// that is too large for that is passed on as it comes.
Task<std::string> Session::collect(Exchange& exchange, Attempt& out) {
  for (;;) {
    Exchange::Part part = co_await exchange.next();
    out.body += part.data;
    if (part.reason.empty() && part.end) exchange.pass_on();
    if (!part.reason.empty() || part.end) co_return part.reason;
    if (out.body.size() <= AnswerJudge::kMaxJudgedBodyBytes) continue;
    exchange.pass_on();
    const bool sent = co_await send_part(exchange.head(), out, out.body);
    if (!sent) co_return "client_gone";
    std::string why = co_await relay(exchange, out);
    co_return why;
  }
}

/// From here on the answer may take longer than a request, and telemetry does not wait for its end.
void Session::begin_passing(Exchange& exchange, Attempt& out) {
  exchange.pass_on();
  if (out.ticket) Ledger::outlive(std::exchange(out.ticket, nullptr));
}

/// Passes the parts of an answer on as they come.
Task<std::string> Session::relay(Exchange& exchange, Attempt& out) {
  for (;;) {
    Exchange::Part part = co_await exchange.next();
    if (part.reason.empty() || !part.data.empty()) begin_passing(exchange, out);
    if (!part.data.empty()) {
      out.judge.part(part.data, elapsed_ms());
      const bool fits = out.body.size() + part.data.size() <= kMaxKeptAnswerBytes;
      out.kept_all = out.kept_all && fits;
      if (out.keep && out.kept_all) out.body += part.data;
      const bool sent = co_await send_part(exchange.head(), out, part.data);
      if (!sent) {
        exchange.abort();
        co_return "client_gone";
      }
    }
    if (!part.reason.empty()) co_return part.reason;
    if (!part.end) continue;
    const bool ended = co_await send_end(out);
    co_return ended ? std::string() : std::string("client_gone");
  }
}

Task<bool> Session::send_part(const ResponseHead& head, Attempt& out, std::string_view data) {
  std::string text;
  if (!out.begun) {
    out.begun = true;
    out.framing = framing_for(head, request_.head.minor_version);
    if (out.framing == Framing::until_close) keep_ = false;
    text = client_answer_head(head, out.framing, head.content_length.value_or(0), keep_);
  }
  std::string_view behind;
  if (out.framing == Framing::chunked) {
    text += fmt::format("{:x}\r\n", data.size());
    behind = "\r\n";
  }
  Pieces pieces{text, data, behind};
  bool sent = client_.write_now(pieces);
  if (!sent) {
    sent = co_await client_.write(pieces);
  }
  co_return sent;
}

Task<bool> Session::send_end(const Attempt& out) {
  if (!out.begun || out.framing != Framing::chunked) co_return true;
  Pieces pieces{"0\r\n\r\n"};
  bool sent = client_.write_now(pieces);
  if (!sent) {
    sent = co_await client_.write(pieces);
  }
  co_return sent;
}

Task<void> Session::deliver(const ResponseHead& head, Attempt& out) {
  out.begun = true;
  const auto text = client_answer_head(head, Framing::length, out.body.size(), keep_);
  Pieces pieces{text, out.body};
  if (!client_.write_now(pieces)) {
    co_await client_.write(pieces);
  }
}

}  // namespace driftgate::route
