#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "daemon/route/relay/session.hpp"

// How one engine is asked and its answer passed on; session.cpp decides which and what follows.
namespace driftgate::route {
namespace {

/// So long after an engine was asked the router begins to watch for a client that leaves. Most answers of
/// fast engines are through by then, and need no wait of their own.
constexpr std::chrono::milliseconds kLookForClient{20};

Framing framing_for(const ResponseHead& answer, int client_minor_version) {
  if (answer.content_length && !answer.chunked) return Framing::length;
  return client_minor_version == 1 ? Framing::chunked : Framing::until_close;
}

void append_chunk_size(std::string& out, std::size_t size) {
  std::array<char, 18> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), size, 16);
  out.append(digits.data(), end).append("\r\n");
}

}  // namespace

Task<void> Session::attempt(FirstByteWait& wait, bool discardable, Attempt& out) {
  const auto& engine = wait.engine().endpoint();
  const auto head = engine_request_head(request_.head, engine, request_.body.size(), core_.mark);
  if (engine.has_key()) out.judge.keyed();
  const ExchangeLimits limits{
      std::chrono::steady_clock::now() + std::chrono::milliseconds(core_.options.request_deadline_ms),
      std::chrono::milliseconds(core_.options.between_ms)};
  Exchange exchange(context_.pool, context_.deadlines, engine, limits, &wait);
  exchange_ = &exchange;
  look_.set(context_.deadlines.coarse_now() + kLookForClient);
  std::string why = co_await exchange.start(head, request_.body);
  if (why.empty()) {
    out.judge.head(exchange.head().status, exchange.head().find("content-type").value_or(""),
                   elapsed_ms(std::chrono::steady_clock::now()));
    if (out.judge.streamed()) {
      why = co_await relay(exchange, out);
    } else {
      why = co_await collect(exchange, out);
    }
  }
  exchange_ = nullptr;
  look_.clear();
  if (wait.was_late()) out.judge.late();
  judge_end(out, why);
  const bool whole = why.empty() && !out.judge.streamed() && !out.begun && !out.client_gone;
  if (whole && !(discardable && !out.judge.usable())) {
    out.begun = true;
    const auto before = client_answer_head(exchange.head(), Framing::length, out.body.size(), keep_);
    Pieces pieces{before, out.body};
    if (!client_.write_now(pieces)) {
      co_await client_.write(pieces);
    }
  }
  // A broken answer ends with its connection: the client must not take it for a whole one.
  if (out.begun && !why.empty()) keep_ = false;
}

/// Reads a plain answer as a whole, so that it can be judged before its first byte is passed on; one
/// that is too large for that is passed on as it comes.
Task<std::string> Session::collect(Exchange& exchange, Attempt& out) {
  for (;;) {
    Exchange::Part part;
    if (!exchange.next_now(part)) {
      Exchange::Part awaited = co_await exchange.next();
      part = std::move(awaited);
    }
    if (out.body.empty()) {
      out.body = std::move(part.data);
    } else {
      out.body += part.data;
    }
    if (part.reason.empty() && part.end) exchange.pass_on();
    if (!part.reason.empty() || part.end) co_return part.reason;
    if (out.body.size() <= AnswerJudge::kMaxJudgedBodyBytes) continue;
    exchange.pass_on();
    std::string before;
    Pieces pieces = framed(exchange.head(), out, out.body, false, before);
    bool sent = client_.write_now(pieces);
    if (!sent) {
      sent = co_await client_.write(pieces);
    }
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

/// Passes the parts of an answer on as they come; its end with the last of them, unless it came alone.
Task<std::string> Session::relay(Exchange& exchange, Attempt& out) {
  for (;;) {
    Exchange::Part part = co_await exchange.next();
    if (part.reason.empty() || !part.data.empty()) begin_passing(exchange, out);
    const bool last = part.end && part.reason.empty();
    const bool ends_chunks = last && out.begun && out.framing == Framing::chunked;
    if (!part.data.empty() || ends_chunks) {
      out.judge.part(part.data, elapsed_ms(std::chrono::steady_clock::now()));
      const bool fits = out.body.size() + part.data.size() <= kMaxKeptAnswerBytes;
      out.kept_all = out.kept_all && fits;
      if (out.keep && out.kept_all) out.body += part.data;
      std::string before;
      Pieces pieces = framed(exchange.head(), out, part.data, last, before);
      bool sent = client_.write_now(pieces);
      if (!sent) {
        sent = co_await client_.write(pieces);
      }
      if (!sent) {
        exchange.abort();
        co_return "client_gone";
      }
      give_back(std::move(part.data));
    }
    if (!part.reason.empty() || part.end) co_return part.reason;
  }
}

/// A part of an answer as it goes to the client: with the first one the head, with the last one the end.
/// `before` gets what stands before the data, and lives as long as the pieces.
Pieces Session::framed(const ResponseHead& head, Attempt& out, std::string_view data, bool last,
                       std::string& before) {
  if (!out.begun) {
    out.begun = true;
    out.framing = framing_for(head, request_.head.minor_version);
    if (out.framing == Framing::until_close) keep_ = false;
    before = client_answer_head(head, out.framing, head.content_length.value_or(0), keep_);
  }
  if (out.framing != Framing::chunked) return {before, data};
  if (!data.empty()) append_chunk_size(before, data.size());
  std::string_view behind = last ? "\r\n0\r\n\r\n" : "\r\n";
  if (data.empty()) behind.remove_prefix(2);
  return {before, data, behind};
}

}  // namespace driftgate::route
