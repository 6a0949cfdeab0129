#include "daemon/cli/service/client.hpp"

#include <fmt/core.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "daemon/base/json_members.hpp"

namespace driftgate::cli {
namespace {

using schema::ErrorCode;
using schema::fail;
using schema::Result;

constexpr std::chrono::milliseconds kResumePause{250};
constexpr std::chrono::milliseconds kSlowResumePause{2'000};
constexpr int kQuickResumes = 20;
/// The daemon verifies a bundle before it sends the first byte: about 35 s of one core for a million entries.
constexpr std::chrono::minutes kVerifiedWithin{10};
constexpr std::chrono::milliseconds kStreamSilence{40'000};  ///< more than two missed heartbeats

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpace = " \n\r\t";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Result<std::string> find_token(const ConnectionArgs& args) {
  constexpr std::size_t kMaxTokenBytes = 4096;
  if (args.token_file.empty()) {
    std::string token = trimmed(environment("DRIFTGATE_TOKEN"));
    if (!token.empty()) return token;
  }
  const std::string fallback = environment("HOME") + "/.config/driftgate/token";
  const std::string path = args.token_file.empty() ? fallback : args.token_file;
  auto token = read_file(path, kMaxTokenBytes);
  if (token) {
    *token = trimmed(*token);
    if (!token->empty()) return token;
    return fail(ErrorCode::unauthenticated, fmt::format("'{}' contains no token", path));
  }
  if (!args.token_file.empty()) return token;
  return fail(
      ErrorCode::unauthenticated,
      fmt::format(
          "no token: pass --token-file FILE, set DRIFTGATE_TOKEN, or put a token into {} (the daemon writes "
          "the first one to admin.token in its data folder)",
          fallback));
}

ErrorCode code_from_name(std::string_view name, int status) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i)
    if (schema::to_string(static_cast<ErrorCode>(i)) == name) return static_cast<ErrorCode>(i);
  if (status == 429 || status == 408) return ErrorCode::unavailable;
  return status < 500 ? ErrorCode::invalid_argument : ErrorCode::internal;
}

/// The error that a problem document stands for, its faults on lines of their own.
schema::Error error_of(const net::ClientResponse& response) {
  const auto body = nlohmann::json::parse(response.body, nullptr, false);
  const auto detail = base::maybe_text_at(body, "detail");
  if (detail) return {code_from_name(base::text_at(body, "code"), response.status), *detail, {}, nullptr};
  return {ErrorCode::invalid_document,
          fmt::format("the answer has status {} and is not an error of driftgate: is the URL right?",
                      response.status),
          {},
          nullptr};
}

/// Answers of a daemon, or of a proxy before it, that starts, stops or has too much to do.
bool passes(int status) {
  return status == 429 || (status >= 502 && status <= 504);
}

std::string why_cut(const Result<net::ClientResponse>& response) {
  if (!response) return response.error().message;
  return response->status < 300 ? "" : fmt::format("it answers with status {}", response->status);
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::io, fmt::format("cannot read '{}'", path));
  std::string text(limit + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return fail(ErrorCode::io, fmt::format("cannot read '{}'", path));  // a folder
  if (text.size() > limit)
    return fail(ErrorCode::limit_exceeded, fmt::format("'{}' is larger than {} bytes", path, limit));
  return text;
}

std::string fresh_idempotency_key() {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 4; ++i) key += fmt::format("{:08x}", random());
  return key;
}

Result<Client> Client::open(const ConnectionArgs& args) {
  std::string text = args.url.empty() ? environment("DRIFTGATE_URL") : args.url;
  if (text.empty()) text = kDefaultUrl;
  auto url = TRY(net::parse_url(text));
  auto token = TRY(find_token(args));
  net::TlsClientFiles tls = args.tls;
  if (tls.ca.empty()) tls.ca = environment("DRIFTGATE_CA");
  if (url.tls) std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to the socket without MSG_NOSIGNAL
  return Client(std::move(url), std::move(token), std::move(tls));
}

void Client::address(net::ClientRequest& request) const {
  request.target = net::join_target(url_.target, request.target);
  request.headers.push_back({"Authorization", "Bearer " + token_});
}

Result<std::string> Client::exchange(net::ClientRequest request) {
  address(request);
  auto response = net::HttpClient(url_, {.total_timeout = answer_time_, .tls = tls_}).send(request);
  if (!response && response.error().code == ErrorCode::unavailable)
    return fail(ErrorCode::unavailable,
                fmt::format("no daemon answers at {} ({}): start it with 'driftgate serve' or give --url",
                            url_.base(), response.error().describe()));
  if (!response) return std::unexpected(response.error());
  if (response->status < 200 || response->status >= 300) return std::unexpected(error_of(*response));
  return std::move(response->body);
}

Result<net::ClientResponse> Client::stream(net::ClientRequest request, std::chrono::milliseconds idle_timeout,
                                           const net::OnBody& on_bytes) {
  address(request);
  const net::ClientOptions options{.total_timeout = std::chrono::milliseconds(0),
                                   .idle_timeout = idle_timeout,
                                   .max_body_bytes = 0,
                                   .tls = tls_};
  return net::HttpClient(url_, options).stream(request, on_bytes);
}

Result<std::string> Client::get(const std::string& target) {
  return exchange({.target = target});
}

Result<std::string> Client::remove(const std::string& target) {
  return exchange({.method = "DELETE", .target = target});
}

Result<std::string> Client::post(const std::string& target, std::string body,
                                 std::string_view idempotency_key, std::string_view media_type) {
  net::Headers headers{{"Content-Type", std::string(media_type)}};
  if (!idempotency_key.empty()) headers.push_back({"Idempotency-Key", std::string(idempotency_key)});
  return exchange(
      {.method = "POST", .target = target, .headers = std::move(headers), .body = std::move(body)});
}

Result<void> Client::download(const std::string& target, const net::OnBody& on_bytes) {
  bool taken = true;
  const auto response = stream({.target = target}, kVerifiedWithin, [&](std::string_view bytes) {
    taken = taken && on_bytes(bytes);
    return taken;
  });
  if (!taken) return fail(ErrorCode::io, "cannot write the answer of the daemon");
  if (!response) return std::unexpected(response.error());
  if (response->status >= 300) return std::unexpected(error_of(*response));
  return {};
}

Result<std::string> Client::change(const std::string& method, const std::string& target,
                                   std::optional<std::int64_t> revision, std::string body) {
  net::Headers headers;
  if (revision) headers.push_back({"If-Match", fmt::format("\"{}\"", *revision)});
  if (!body.empty()) headers.push_back({"Content-Type", "application/json"});
  return exchange(
      {.method = method, .target = target, .headers = std::move(headers), .body = std::move(body)});
}

Result<void> Client::follow(const std::string& target,
                            const std::function<bool(const net::SseEvent&)>& on_event,
                            const StreamHooks& hooks) {
  std::string last_id;
  int resumes = 0;
  bool began = false, ended = false;
  for (;;) {
    net::SseParser parser;
    const auto handle = [&](const net::SseEvent& event) {
      resumes = 0;
      if (!event.id.empty()) last_id = event.id;
      ended = !on_event(event) || event.name == "end";
      return !ended;
    };
    net::ClientRequest request{.target = target};
    if (!last_id.empty()) request.headers.push_back({"Last-Event-ID", last_id});
    const auto response = stream(std::move(request), kStreamSilence, [&](std::string_view bytes) {
      began = true;
      ended = hooks.on_bytes && !hooks.on_bytes();
      return !ended && parser.feed(bytes, handle).has_value() && !ended;
    });
    if (ended) return {};
    const bool refused = response && response->status >= 300;
    if (refused && !(began && passes(response->status))) return std::unexpected(error_of(*response));
    if (++resumes > hooks.max_resumes)
      return fail(ErrorCode::unavailable,
                  fmt::format("no daemon answers at {}: the event stream was interrupted", url_.base()));
    if (hooks.on_cut && !hooks.on_cut(why_cut(response))) return {};
    std::this_thread::sleep_for(resumes > kQuickResumes ? kSlowResumePause : kResumePause);
  }
}

}  // namespace driftgate::cli
