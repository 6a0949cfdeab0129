#include "examples/tinylm/src/serving/session.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "examples/tinylm/src/serving/request.hpp"

namespace tinylm {
namespace {

constexpr Milliseconds kIdle{60'000};     // between requests
constexpr Milliseconds kTimeout{
    10'000};  // within a request, and for a client that does not read the response

}  // namespace

void Session::run() {
  struct Mark {
    std::atomic<bool>& flag;
    ~Mark() { flag = true; }
  } mark{finished_};
  bool open = true;
  while (open && !service_.stopping) {
    const auto request = connection_.read_request(kIdle, kTimeout);
    if (!request) {
      const HttpFailure& failure = request.error();
      if (failure.status != 0)
        send_error({failure.status, "invalid_request_error", "bad_http", failure.message}, false);
      break;
    }
    if (!*request) break;
    open = handle(**request);
  }
  connection_.socket().shutdown_both();
}

void Session::interrupt(bool hard) {
  if (hard)
    connection_.socket().shutdown_both();
  else
    connection_.socket().shutdown_reading();
}

bool Session::handle(const HttpRequest& request) {
  const std::string path = request.target.substr(0, request.target.find('?'));
  const bool known =
      path == "/v1/completions" || path == "/v1/models" || path == "/props" || path == "/health";
  if (!known)
    return send_error({404, "invalid_request_error", "not_found",
                       "no such path: use /v1/completions, /v1/models, /props or /health"},
                      request.keep_alive);
  const std::string wanted = path == "/v1/completions" ? "POST" : "GET";
  if (request.method != wanted)
    return send_error({405, "invalid_request_error", "method_not_allowed", path + " takes " + wanted},
                      request.keep_alive);
  if (path == "/v1/completions") return complete(request);
  if (path == "/props") return send(200, props_body(), request.keep_alive);
  return send(200, path == "/health" ? R"({"status":"ok"})" : models_body(), request.keep_alive);
}

bool Session::complete(const HttpRequest& http) {
  auto request = parse_completion(http.body, service_.model_name, service_.max_positions);
  if (!request) return send_error(request.error(), http.keep_alive);
  if (request->max_tokens > 0) {
    const FaultPlan plan = service_.faults.next(http.body);
    std::this_thread::sleep_for(plan.delay);
    if (plan.fails)
      return send_error(
          {500, "server_error", "injected_failure", "this failure was injected by --fail-share"},
          http.keep_alive);
    if (plan.garbage) return send(200, R"({"object":"text_completion","choices":[{"te)", http.keep_alive);
  }
  const bool stream = request->stream;
  const auto generation = service_.scheduler.submit(std::move(*request));
  if (!generation)
    return send_error({503, "server_error", "overloaded", "the queue is full: retry after a moment"},
                      http.keep_alive);
  return stream ? answer_stream(http, *generation) : answer(http, *generation);
}

bool Session::answer(const HttpRequest& request, Generation& generation) {
  const auto [tokens, finish] = generation.wait_all();
  if (finish == Finish::cancelled)
    return send_error({503, "server_error", "stopping", "the engine is stopping: use another one"}, false);
  return send(200, completion_body(identity(), generation, tokens, finish), request.keep_alive);
}

bool Session::answer_stream(const HttpRequest& request, Generation& generation) {
  const bool chunked = request.chunks_allowed;
  auto sent = connection_.socket().send_all(http_stream_head(chunked), kTimeout);
  ChunkWriter writer(identity(), generation);
  std::vector<TokenResult> all;
  Finish finish = Finish::none;
  while (sent && finish == Finish::none) {
    auto [fresh, how] = generation.wait_beyond(all.size());
    finish = how;
    if (finish == Finish::cancelled) return false;  // a stream without its end, as when an engine crashes
    all.insert(all.end(), std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
    const std::string part = writer.advance(all, finish);
    if (!part.empty()) sent = connection_.socket().send_all(chunked ? http_chunk(part) : part, kTimeout);
  }
  if (sent && chunked) sent = connection_.socket().send_all(http_chunk(""), kTimeout);
  if (!sent) generation.cancel();
  return sent.has_value() && chunked && request.keep_alive;
}

bool Session::send(int status, const std::string& body, bool keep_alive) {
  const bool keep = keep_alive && !service_.stopping;
  return connection_.socket()
             .send_all(http_response(status, "application/json", body, keep), kTimeout)
             .has_value() &&
         keep;
}

bool Session::send_error(const ApiError& error, bool keep_alive) {
  return send(error.status, error_body(error), keep_alive);
}

std::string Session::models_body() const {
  const nlohmann::json model = {{"id", service_.model_name},
                                {"object", "model"},
                                {"created", 0},
                                {"owned_by", "tinylm"},
                                {"kernel", service_.kernel},
                                {"checkpoint_digest", service_.checkpoint_digest},
                                {"max_model_len", service_.max_positions}};
  return nlohmann::json{{"object", "list"}, {"data", {model}}}.dump();
}

// What a request that is silent gets, in the shape in which llama.cpp's server tells it.
std::string Session::props_body() {
  const nlohmann::json params = {
      {"temperature", 1.0}, {"top_p", 1.0}, {"top_k", 0}, {"min_p", 0.0}, {"repeat_penalty", 1.0}};
  return nlohmann::json{{"default_generation_settings", {{"params", params}}}}.dump();
}

ResponseIdentity Session::identity() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {"cmpl-" + std::to_string(service_.next_id++), service_.model_name, service_.kernel,
          std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

}  // namespace tinylm
