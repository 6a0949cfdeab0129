#include "daemon/route/relay/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/base/clock.hpp"
#include "daemon/base/http_text.hpp"
#include "daemon/route/http/request_shapes.hpp"
#include "daemon/route/table/bucket.hpp"
#include "daemon/route/table/route_json.hpp"

namespace driftgate::route {
namespace {

constexpr std::uint64_t kDefaultCompletionTokens = 16;  // of the OpenAI API
constexpr std::uint64_t kDefaultChatTokens = 256;       // assumed: the API has no limit there
constexpr std::uint64_t kMaxChoices = 128;
constexpr std::string_view kChat = "/v1/chat/completions";

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

std::uint64_t tokens_asked(const BodyFacts& facts, std::string_view path) {
  const auto each = facts.max_tokens > 0 ? facts.max_tokens
                    : path == kChat      ? kDefaultChatTokens
                                         : kDefaultCompletionTokens;
  return std::min(facts.choices, kMaxChoices) * std::min<std::uint64_t>(each, 1u << 20);
}

Refusal no_such_model(std::string_view model) {
  return {404, "model_not_found",
          fmt::format("the model '{}' is not served here; GET /v1/models lists the models that are", model)};
}

nlohmann::json model_entry(const std::string& model) {
  return {{"id", model}, {"object", "model"}, {"owned_by", "driftgate"}};
}

Refusal engine_refusal(const AnswerJudge& judge) {
  const auto& reason = judge.ending().reason;
  if (reason == "timeout")
    return {504, "engine_timeout", "the engine did not answer in time; try again later"};
  return {502, "engine_" + reason, fmt::format("the engine failed ({}); try again later", reason)};
}

}  // namespace

Session::Session(WorkerContext& context, TcpSocket socket, std::unique_ptr<ClientStream::Place> place)
    : context_(context),
      core_(context.core),
      client_(std::move(socket), context.deadlines, context.core.options, std::move(place)),
      look_(context.deadlines, [this] { client_.watch(shared_from_this()); }) {
  context_.sessions.insert(this);
  client_.on_gone([this] {
    if (exchange_ != nullptr) exchange_->abort();
  });
}

Session::~Session() {
  context_.sessions.erase(this);
}

void Session::close_if_idle() {
  if (client_.idle()) client_.close();
}

void Session::follow_breaker() {
  if (exchange_ != nullptr) exchange_->follow_breaker();
}

double Session::elapsed_ms(std::chrono::steady_clock::time_point now) const {
  return std::chrono::duration<double, std::milli>(now - accepted_).count();
}

Task<void> Session::run() {
  client_.place().begin([executor = context_.io.get_executor(), weak = weak_from_this()] {
    asio::post(executor, [weak] {
      if (const auto session = weak.lock()) session->client_.evict();
    });
  });
  do {
    head_only_ = false;
    const ClientStream::Read read = co_await client_.read_request(request_);
    if (read == ClientStream::Read::closed) break;
    if (read == ClientStream::Read::refused) {
      keep_ = false;
      std::string refused = refusal_answer(client_.refusal(), false);
      co_await reply(std::move(refused));
      break;
    }
    accepted_ = std::chrono::steady_clock::now();
    head_only_ = request_.head.method == "HEAD";
    keep_ = request_.head.keep_alive && !core_.draining && !client_.place().evicted();
    co_await answer();
  } while (keep_ && !client_.gone() && !core_.draining && !client_.place().evicted());
  client_.close();
}

Task<void> Session::reply(std::string text) {
  if (head_only_) text.resize(text.find("\r\n\r\n") + 4);
  Pieces pieces{text};
  if (!client_.write_now(pieces)) {
    co_await client_.write(pieces);
  }
  if (!keep_) {
    co_await client_.linger();
  }
}

Task<void> Session::answer() {
  const auto path = request_.head.path();
  operation_ = core_.operations.find(path);
  std::string text;
  if (came_back()) {
    text = refused(
        {508, "loop",
         "this request has already passed through this router: one of its engine URLs leads back to it"});
  } else if (operation_ != nullptr && operation_->takes(request_.head.method)) {
    text = co_await pass_on();
  } else {
    text = own_reply(path);
  }
  if (!text.empty()) {
    co_await reply(std::move(text));
  }
}

/// True for a request that this router has passed on already, whatever stands between.
bool Session::came_back() const {
  return std::ranges::any_of(request_.head.fields, [this](const HeadField& field) {
    return field.kind == FieldKind::via && via_names(field.value, core_.mark);
  });
}

/// What the health check of a plane in front of the router asks: without a 200 it exposes no candidate.
std::string Session::lease_reply() const {
  const bool holds = core_.plane->may_expose();
  return own_answer(holds ? 200 : 503, "application/json",
                    holds ? R"({"lease":"held"})" : R"({"lease":"expired"})", keep_);
}

/// The router's own error, as clients of the API that is asked read it.
std::string Session::refused(const Refusal& refusal) const {
  return refusal_answer(refusal, keep_, operation_ == nullptr ? ApiShape::completion : operation_->shape);
}

std::string Session::own_reply(std::string_view path) const {
  const bool get = request_.head.method == "GET";
  if (path == kLeasePath && core_.plane && get) return lease_reply();
  const auto model = model_of_path(path);
  const bool own = path == kHealthPath || path == kModelsPath || model;
  if (!own) return unknown_reply(path);
  if (!get && !head_only_)
    return refused({405, "method_not_allowed", fmt::format("{} takes GET and HEAD", path)});
  if (model) return model_reply(*model);
  const auto body = path == kHealthPath ? std::string(R"({"status":"ok"})") : models_body();
  return own_answer(200, "application/json", body, keep_);
}

std::string Session::unknown_reply(std::string_view path) const {
  if (operation_ != nullptr)
    return refused(
        {405, "method_not_allowed", fmt::format("{} does not take {}", path, request_.head.method)});
  return refused({404, "unknown_path",
                  fmt::format("this router serves {}, GET {}, GET {}/MODEL and GET {}",
                              core_.operations.list(), kModelsPath, kModelsPath, kHealthPath)});
}

std::string Session::model_reply(const std::string& model) const {
  if (core_.routes.find(model) == nullptr) return refused(no_such_model(model));
  return own_answer(200, "application/json", dumped(model_entry(model)), keep_);
}

std::string Session::models_body() const {
  auto list = nlohmann::json::array();
  for (const auto& [model, stage] : core_.routes.stages()) {
    list.push_back(model_entry(model));
  }
  return dumped({{"object", "list"}, {"data", std::move(list)}});
}

/// What the request says of itself. One that is not read as completions are may name its model in a header;
/// where only one model is served it need not.
std::optional<Refusal> Session::read_facts(BodyFacts& facts) const {
  auto scanned = scan_request_body(request_.body);
  if (scanned) facts = std::move(*scanned);
  if (operation_->judged) {
    if (!scanned) return Refusal{400, "bad_body", scanned.error().message};
    read_shape(operation_->shape, request_.body, facts);
    return std::nullopt;
  }
  facts.stream = false;
  if (const auto named = request_.head.find("driftgate-model")) facts.model = *named;
  if (!facts.model.empty()) return std::nullopt;
  const auto served = core_.routes.stages();
  if (served.size() == 1) {
    facts.model = served.front().first;
    return std::nullopt;
  }
  return Refusal{400, "model_missing",
                 "name the model: as the member 'model' of a JSON body, or in the header driftgate-model"};
}

std::optional<Refusal> Session::make_plan(Plan& plan) {
  if (auto refusal = read_facts(plan.facts)) return refusal;
  plan.route = core_.routes.find(plan.facts.model);
  if (!plan.route) return no_such_model(plan.facts.model);
  auto slice = slice_of_metadata(plan.facts.metadata);
  if (const auto header = request_.head.find("driftgate-slice")) {
    auto parsed = parse_slice_header(*header);
    if (!parsed) return Refusal{400, "bad_slice", parsed.error().message};
    slice = std::move(*parsed);
  }
  plan.slice = canonical_slice(slice);
  plan.key = request_.head.find("driftgate-key").value_or("");
  if (plan.key.empty()) plan.key = plan.facts.user;
  const bool keyless = plan.key.empty();
  if (keyless) plan.key = fmt::format("{:016x}{:016x}", context_.random(), context_.random());
  if (placed_by_plane()) {
    plan.decision = decide_placed(*plan.route);
    plan.order = number_of(request_.head.find("driftgate-order").value_or(""));
  } else {
    plan.decision = decide(*plan.route, plan.key, slice, core_.key_hash());
    if (operation_->judged) count(plan, keyless);
  }
  plan.decision.mirror = plan.decision.mirror && operation_->mirrored;
  return std::nullopt;
}

/// The data plane in front of this router chose the incumbent and counts the request; it is here to be
/// mirrored.
bool Session::placed_by_plane() const {
  return core_.plane_places() &&
         request_.head.find("driftgate-plane") == std::string_view(core_.plane->secret());
}

void Session::count(Plan& plan, bool keyless) {
  Observation seen;
  seen.key_hash = key_hash_of(plan.key, plan.route->seed, core_.key_hash());
  seen.keyless = keyless;
  seen.pinned = plan.decision.pinned;
  seen.candidate = plan.decision.served == Served::candidate;
  seen.candidate_bp = plan.decision.candidate_bp;
  seen.slice = plan.slice;
  seen.routed_us = base::wall_clock_us();
  const auto routed_us = static_cast<std::uint64_t>(seen.routed_us);
  seen.prompt_chars = plan.facts.prompt_chars;
  plan.ticket = core_.ledger.begin(plan.route->model, plan.route->stage_key, std::move(seen),
                                   accepted_ + std::chrono::milliseconds(core_.options.request_deadline_ms));
  // Pairs of requests that the plane has placed are in the order of time.
  plan.order = core_.plane_places() ? routed_us : Ledger::order_of(plan.ticket);
}

/// Begins the wait for the engine that the route names, or leaves it empty where it is not asked. While the
/// candidate's breaker is open nobody waits for it, if the incumbent is well; the incumbent is asked whatever
/// its breaker says, since there is no other engine.
void Session::admit(const Plan& plan, Attempt& first, std::optional<FirstByteWait>& wait) {
  const auto& engine = plan.route->engine(plan.decision.served);
  const auto& incumbent = plan.route->engine(Served::incumbent);
  const bool movable = plan.decision.served == Served::candidate && engine != incumbent;
  auto entry = Engine::Entry::go;
  if (movable && incumbent->state() == BreakerState::closed) {
    entry = engine->enter(std::chrono::steady_clock::now());
  }
  if (entry == Engine::Entry::withheld) {
    first.withheld = true;
    return judge_end(first, "breaker_open");
  }
  const bool repeatable = operation_->repeatable(request_.head.method);
  wait.emplace(engine, first.streamed, movable && repeatable ? incumbent : nullptr,
               entry == Engine::Entry::trial, operation_->timed);
}

/// Whether the incumbent may be asked for what the candidate failed: when asking twice does no harm, or the
/// candidate was not reached.
bool Session::may_ask_again(const Attempt& first) const {
  if (operation_->repeatable(request_.head.method)) return true;
  constexpr std::array<std::string_view, 4> kNotReached{"breaker_open", "connect", "credentials", "tls"};
  return std::ranges::find(kNotReached, first.judge.ending().reason) != kNotReached.end();
}

/// What the router has to answer itself; empty when an engine's answer was passed on.
Task<std::string> Session::pass_on() {
  Plan plan;
  if (const auto refusal = make_plan(plan)) co_return refused(*refusal);
  const bool stream = plan.facts.stream;
  const bool candidate = plan.decision.served == Served::candidate;
  const bool discardable = candidate && operation_->repeatable(request_.head.method);
  Attempt first(stream, plan.decision.mirror, operation_->shape);
  first.ticket = plan.ticket;
  InFlight in_flight(core_.page.model(plan.route->model), plan.decision.served);
  std::optional<FirstByteWait> wait;
  admit(plan, first, wait);
  if (wait) {
    first.in_flight = wait->in_flight();
    co_await attempt(*wait, discardable, first);
  }
  wait.reset();
  const bool failed = !first.client_gone && !first.begun;
  const bool again = failed && candidate && may_ask_again(first);
  if (!failed) in_flight.end();
  settle(plan, first, again);
  offer_mirror(plan, first);
  if (!again) count_other(plan, first);
  if (!failed) co_return std::string();
  if (!again) co_return refused(engine_refusal(first.judge));
  in_flight.move_to(Served::incumbent);
  std::string own = co_await ask_incumbent(plan);
  co_return own;
}

/// Asks the incumbent for what the candidate failed. As pass_on; a coroutine of its own, since what it needs
/// would make the memory of every request larger.
Task<std::string> Session::ask_incumbent(const Plan& plan) {
  const bool stream = plan.facts.stream;
  Attempt second(stream, false, operation_->shape);
  FirstByteWait wait(plan.route->engine(Served::incumbent), stream, nullptr, false, operation_->timed);
  co_await attempt(wait, false, second);
  count_other(plan, second);
  if (second.begun || second.client_gone) co_return std::string();
  co_return refused(engine_refusal(second.judge));
}

void Session::judge_end(Attempt& out, std::string_view why) {
  out.ended = std::chrono::steady_clock::now();
  out.judge.end(why, out.body, elapsed_ms(out.ended));
  out.client_gone = client_.gone() && !out.judge.complete();
}

void Session::settle(const Plan& plan, const Attempt& first, bool retried) {
  Ending ending = first.judge.ending();
  ending.retried = retried;
  ending.withheld = first.withheld;
  if (first.client_gone) {
    ending.outcome = Outcome::excluded;
    ending.reason = "client_gone";
  }
  core_.ledger.finish(plan.ticket, ending, first.ended);
}

/// Of a request that is not judged telemetry has only whether the engine that was asked last failed.
void Session::count_other(const Plan& plan, const Attempt& last) {
  if (operation_->judged) return;
  const bool failed = !last.client_gone && last.judge.ending().outcome == Outcome::failed;
  core_.ledger.count_other(plan.route->model, plan.route->stage_key, failed);
}

void Session::offer_mirror(const Plan& plan, Attempt& first) {
  if (!plan.decision.mirror || first.client_gone || first.judge.ending().outcome == Outcome::excluded) return;
  const auto path = request_.head.path();
  MirrorJob job;
  job.model = plan.route->model;
  job.stage_key = plan.route->stage_key;
  job.tokens = tokens_asked(plan.facts, path);
  job.token_budget = plan.route->mirror_token_budget;
  job.stream = plan.facts.stream;
  job.incumbent_kept = first.kept_all && first.body.size() <= kMaxKeptAnswerBytes;
  job.engine = plan.route->engine(Served::candidate);
  if (job.engine)
    job.head = engine_request_head(request_.head, job.engine->endpoint(), request_.body.size(), core_.mark);
  job.pair.order = plan.order;
  job.pair.key_hash = key_hash_of(plan.key, plan.route->seed, core_.key_hash());
  job.pair.slice = plan.slice;
  job.pair.path = path;
  job.pair.request_body = request_.body;
  job.pair.incumbent = first.judge.side(std::move(first.body));
  // Behind another data plane the incumbent has requests that this router does not see.
  if (first.in_flight > 0 && !core_.plane_places()) job.pair.incumbent.in_flight = first.in_flight;
  context_.mirror.offer(std::move(job));
}

}  // namespace driftgate::route
