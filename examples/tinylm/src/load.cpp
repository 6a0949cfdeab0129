#include "examples/tinylm/src/load.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>

#include "examples/tinylm/src/corpus.hpp"
#include "examples/tinylm/src/serving/http.hpp"

namespace tinylm {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxRequests = 1'000'000;
constexpr std::size_t kMaxConcurrency = 256;
constexpr Milliseconds kTimeout{30'000};

struct Target {
  std::string host;
  std::uint16_t port;
};

Result<Target> parse_url(const std::string& url) {
  const std::string scheme = "http://";
  const std::size_t colon = url.rfind(':');
  if (!url.starts_with(scheme) || colon <= scheme.size())
    return fail("--url must look like http://127.0.0.1:8000");
  const std::string host = url.substr(scheme.size(), colon - scheme.size());
  std::string digits = url.substr(colon + 1);
  if (digits.ends_with('/')) digits.pop_back();
  const bool number = !digits.empty() && digits.size() <= 5 &&
                      std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!number || std::stoul(digits) == 0 || std::stoul(digits) > 65535)
    return fail("--url has no valid port");
  if (!host.starts_with("127.") && host != "localhost")
    return fail("--url names " + host + ": load can only be sent to this machine, as 127.0.0.1 or localhost");
  return Target{host, static_cast<std::uint16_t>(std::stoul(digits))};
}

struct Outcome {
  bool ok = false;
  int status = 0;  ///< 0: no response
  double milliseconds = 0;
  bool sent = false;
};

/// What is drawn for one request.
struct Kind {
  bool stream = false, chat = false;
};

// Whether a client would accept the response: a text or a message, or a stream that has its end.
bool is_answer(const HttpResponse& response, Kind kind) {
  if (response.status != 200) return false;
  if (kind.stream) return response.body.ends_with("data: [DONE]\n\n");
  const json body = json::parse(response.body, nullptr, false);
  return body.is_object() && body.contains("choices") && body["choices"].is_array() &&
         !body["choices"].empty() && body["choices"][0].contains(kind.chat ? "message" : "text");
}

std::string request_text(const LoadOptions& options, const Sequence& prompt, std::size_t number, Kind kind) {
  json body = {{"model", options.model},
               {"max_tokens", options.max_tokens},
               {"temperature", 1.0},
               {"stream", kind.stream},
               {"seed", options.seed * 1'000'003U + number}};
  if (kind.chat) {
    body["messages"] = json::array({json{{"role", "user"}, {"content", prompt.prompt}}});
  } else {
    body["prompt"] = prompt.prompt;
  }
  std::string slices;
  for (const auto& [name, value] : prompt.slices) slices += (slices.empty() ? "" : ";") + name + "=" + value;
  const std::string text = body.dump();
  const std::uint64_t key = options.keys == 0 ? number : number % options.keys;
  const std::string path = kind.chat ? "/v1/chat/completions" : "/v1/completions";
  return "POST " + path +
         " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\ndriftgate-key: " +
         options.key_prefix + "-" + std::to_string(key) + "\r\ndriftgate-slice: " + slices +
         "\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
}

/// During its lifetime SIGTERM and SIGINT request a stop instead of ending the process. Must be created
/// before any thread.
class StopOnSignal {
 public:
  StopOnSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    waiter_ = std::thread([this] {
      int signal = 0;
      sigwait(&signals_, &signal);
      stop_.request_stop();
    });
  }
  ~StopOnSignal() {
    pthread_kill(waiter_.native_handle(), SIGTERM);
    waiter_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

 private:
  sigset_t signals_{}, before_{};
  std::stop_source stop_;
  std::thread waiter_;
};

class Load {
 public:
  Load(const LoadOptions& options, Target target, const std::vector<Sequence>& prompts, std::size_t total,
       std::stop_token stop)
      : options_(options),
        target_(std::move(target)),
        prompts_(prompts),
        total_(total),
        stop_(std::move(stop)),
        outcomes_(total) {}

  std::vector<Outcome> run() {
    start_ = Clock::now();
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < std::min(options_.concurrency, total_); ++i)
      workers.emplace_back([this] { work(); });
    workers.clear();
    std::erase_if(outcomes_, [](const Outcome& outcome) { return !outcome.sent; });
    return outcomes_;
  }

 private:
  void work() {
    std::optional<HttpConnection> connection;
    for (std::size_t number = next_++; number < total_; number = next_++) {
      const auto due = start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                    static_cast<double>(number) / options_.rate));
      if (!wait_until(due)) return;
      outcomes_[number] = send_one(connection, number);
      outcomes_[number].sent = true;
      outcomes_[number].milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - due).count();
    }
  }

  /// False when a stop was requested first.
  bool wait_until(Clock::time_point due) {
    std::unique_lock lock(mutex_);
    pause_.wait_until(lock, stop_, due, [] { return false; });
    return !stop_.stop_requested();
  }

  Outcome send_one(std::optional<HttpConnection>& connection, std::size_t number) {
    std::mt19937_64 random(options_.seed * 7919U + number);
    const Sequence& prompt = prompts_[random() % prompts_.size()];
    const auto happens = [&random](double share) {
      return static_cast<double>(random() >> 11U) * 0x1p-53 < share;
    };
    const bool stream = happens(options_.stream_share);
    const Kind kind{stream, happens(options_.chat_share)};
    const std::string text = request_text(options_, prompt, number, kind);
    // The peer may have closed an idle connection; one new connection is tried in that case.
    for (const bool reused : {connection.has_value(), false}) {
      if (!connection) {
        auto socket = Socket::connect(target_.host, target_.port, kTimeout);
        if (!socket) return {};
        connection.emplace(std::move(*socket));
      }
      const bool sent = connection->socket().send_all(text, kTimeout).has_value();
      const auto response =
          sent ? connection->read_response(kTimeout) : std::unexpected(HttpFailure{0, "not sent"});
      if (response) {
        if (!response->keep_alive) connection.reset();
        return {is_answer(*response, kind), response->status, 0};
      }
      connection.reset();
      if (!reused) return {};
    }
    return {};
  }

  const LoadOptions& options_;
  Target target_;
  const std::vector<Sequence>& prompts_;
  std::size_t total_;
  std::stop_token stop_;
  std::mutex mutex_;
  std::condition_variable_any pause_;
  std::vector<Outcome> outcomes_;
  std::atomic<std::size_t> next_{0};
  Clock::time_point start_;
};

json summary(const std::vector<Outcome>& outcomes, double seconds) {
  std::map<std::string, std::size_t> by_status;
  std::vector<double> latencies;
  std::size_t ok = 0;
  for (const Outcome& outcome : outcomes) {
    ok += outcome.ok ? 1 : 0;
    ++by_status[outcome.status == 0 ? "none" : std::to_string(outcome.status)];
    if (outcome.ok) latencies.push_back(outcome.milliseconds);
  }
  std::ranges::sort(latencies);
  const auto quantile = [&](double q) -> json {
    if (latencies.empty()) return nullptr;
    const auto at = static_cast<std::size_t>(std::ceil(q * static_cast<double>(latencies.size())));
    return latencies[std::max<std::size_t>(at, 1) - 1];
  };
  return {{"requests", outcomes.size()},
          {"ok", ok},
          {"failed", outcomes.size() - ok},
          {"seconds", seconds},
          {"requests_per_second", static_cast<double>(outcomes.size()) / seconds},
          {"by_status", by_status},
          {"latency_ms", {{"p50", quantile(0.5)}, {"p95", quantile(0.95)}, {"p99", quantile(0.99)}}}};
}

}  // namespace

Result<void> run_load(const LoadOptions& options) {
  const auto target = parse_url(options.url);
  if (!target) return std::unexpected(target.error());
  const std::size_t total = options.requests > 0
                                ? options.requests
                                : static_cast<std::size_t>(std::ceil(options.rate * options.seconds));
  if (total == 0 || total > kMaxRequests)
    return fail("--requests, or --rate times --seconds, must lie between 1 and 1000000");
  if (options.concurrency == 0 || options.concurrency > kMaxConcurrency)
    return fail("--concurrency must lie between 1 and 256");
  const auto prompts = read_corpus(options.prompts, 1U << 20U);
  if (!prompts) return std::unexpected(prompts.error());
  const auto begin = Clock::now();
  const StopOnSignal stop;
  Load load(options, *target, prompts->sequences, total, stop.token());
  const auto outcomes = load.run();
  const json report = summary(outcomes, std::chrono::duration<double>(Clock::now() - begin).count());
  std::printf("%s\n", report.dump().c_str());
  if (options.json_out.empty()) return {};
  std::ofstream out(options.json_out);
  out << report.dump(2) << '\n';
  if (!out.flush()) return fail("cannot write " + options.json_out);
  return {};
}

}  // namespace tinylm
