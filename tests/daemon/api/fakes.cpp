#include "fakes.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace driftgate::api::test {

using schema::ErrorCode;
using schema::fail;
template <typename T>
using Result = schema::Result<T>;
using pipeline::Page;
using pipeline::PageRequest;
using pipeline::View;

namespace {

constexpr const char* kHash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr const char* kModel =
    R"({"name":"m","incumbent":{"engine":"e","kernel":"k"},"promotion":null,"hold":null,)"
    R"("route":{"desired":{},"observed":null,"agree":false}})";

constexpr const char* kBlock =
    R"({"id":"bl-1","checkpoint":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",)"
    R"("kernel":"k","contract":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",)"
    R"("promotion":"pr-1","reason":"nonfinite","by":"driftgate","since_us":1,"lifted":null})";
constexpr const char* kWebhook =
    R"({"name":"m","url":"http://127.0.0.1:1/","events":[],"disabled":null,"pending":1,"delivered":0,)"
    R"("failed":0,"dropped":0,"last_error":""})";

std::string job_json(const std::string& id, bool with_folder = false) {
  return fmt::format(
      R"({{"id":"{}","promotion":"pr-1","model":"m","stage":"offline-numeric","attempt":1,"name":"drift",)"
      R"("kind":"drift","state":"running","place":{{"runner":"slurm","remote":"1234","state":"queued",)"
      R"("reason":"Priority","nodes":""}},"progress":{{"done":1,"total":2,"unit":"rows","text":"half"}},)"
      R"("cancel":null,"created_us":1,"ended_us":null,"error":null,"digests":{{"train":"{}"}},"wall_ms":null,)"
      R"("logs":["log"]{}}})",
      id, kDigest, with_folder ? R"(,"folder":"/jobs/1")" : "");
}

View named(const std::string& name, std::string json) {
  return {name, 1, true, std::move(json)};
}

View contract_view() {
  return named(kDigest, fmt::format(R"({{"digest":"{}","name":"c"}})", kDigest));
}
View kernel_view() {
  return named("k", fmt::format(R"({{"name":"k","digest":"{}"}})", kDigest));
}
View engine_view() {
  return named("e", R"({"name":"e","url":"http://127.0.0.1:1","kernel":"k"})");
}

Result<View> known(const std::string& asked, const std::string& name, View view) {
  if (asked != name) return fail(ErrorCode::not_found, fmt::format("there is no '{}'", asked));
  return view;
}

/// Two pages of one item.
Page page_of(const View& view, const PageRequest& request) {
  return {{view}, request.after.empty() ? "two" : ""};
}

}  // namespace

std::string FakeService::promotion_json(const std::string& id, const std::string& state) {
  return fmt::format(
      R"({{"id":"{}","model":"m","engine":"e","contract":"{}","contract_name":"c","requester":"ada","state":"{}",)"
      R"("stage":"canary","attempt":1,"traffic":"live","reason":"","created_us":1,"updated_us":2,"stages":)"
      R"([{{"stage":"canary","attempt":1,"state":"running","verdict":null,"summary":null,"progress":null}}],)"
      R"("canary":null,"approval":null,"why":"It runs.","next":"","needs":[],"share_bp":0,"evidence_shown":"{}"}})",
      id, kDigest, state, kDigest);
}

Result<View> FakeService::changed(const std::string& actor, const std::string& what, View view) {
  const std::lock_guard lock(mutex);
  calls.push_back(actor + " " + what);
  if (failure) return std::unexpected(*failure);
  return view;
}

Result<View> FakeService::register_contract(const std::string& actor, std::string_view text,
                                            const std::string&) {
  return changed(actor, "register_contract " + std::string(text), contract_view());
}
Result<View> FakeService::register_kernel(const std::string& actor, std::string_view) {
  return changed(actor, "register_kernel", kernel_view());
}
Result<View> FakeService::register_engine(const std::string& actor, const pipeline::EngineRequest& request) {
  return changed(actor, "register_engine " + request.url, engine_view());
}
Result<View> FakeService::create_model(const std::string& actor, const pipeline::ModelRequest& request) {
  return changed(actor, "create_model " + request.name, named("m", kModel));
}
Result<View> FakeService::plan_promotion(const std::string& actor, const pipeline::PromotionRequest&) {
  return changed(actor, "plan_promotion", named("plan", R"({"stages":[]})"));
}
Result<View> FakeService::request_promotion(const std::string& actor, const pipeline::PromotionRequest&) {
  const std::string id = fmt::format("pr-{}", ++promotions_made);
  return changed(actor, "request_promotion", named(id, promotion_json(id, "queued")));
}
Result<View> FakeService::approve(const std::string& actor, const std::string& id, const std::string& digest,
                                  const std::string& reason) {
  return changed(actor, fmt::format("approve {} {} {}", id, digest, reason),
                 named(id, promotion_json(id, state)));
}
Result<View> FakeService::waive(const std::string& actor, const std::string& id, const std::string& clause,
                                const std::string& digest, const std::string& reason) {
  return changed(actor, fmt::format("waive {} {} {} {}", id, clause, digest, reason),
                 named(id, promotion_json(id, state)));
}
namespace {

std::string order_text(const pipeline::Order& order) {
  return order.evidence_shown.empty() ? order.reason : order.reason + " as " + order.evidence_shown;
}

}  // namespace

Result<View> FakeService::abort(const std::string& actor, const std::string& id,
                                const pipeline::Order& order) {
  return changed(actor, fmt::format("abort {} {}", id, order_text(order)),
                 named(id, promotion_json(id, "aborted")));
}
Result<View> FakeService::rollback(const std::string& actor, const std::string& id,
                                   const pipeline::Order& order) {
  return changed(actor, fmt::format("rollback {} {}", id, order_text(order)),
                 named(id, promotion_json(id, "rejected")));
}
Result<View> FakeService::pause(const std::string& actor, const std::string& id,
                                const pipeline::Order& order) {
  return changed(actor, fmt::format("pause {} {}", id, order_text(order)),
                 named(id, promotion_json(id, "paused")));
}
Result<View> FakeService::resume(const std::string& actor, const std::string& id,
                                 const pipeline::Order& order) {
  return changed(actor, fmt::format("resume {} {}", id, order_text(order)),
                 named(id, promotion_json(id, "running")));
}
Result<View> FakeService::lift_hold(const std::string& actor, const std::string& model,
                                    const std::string& reason) {
  return changed(actor, fmt::format("lift_hold {} {}", model, reason), named("m", kModel));
}
Result<View> FakeService::lift_block(const std::string& actor, const std::string& block,
                                     const std::string& reason) {
  return changed(actor, fmt::format("lift_block {} {}", block, reason), named(block, kBlock));
}
Result<View> FakeService::cancel_job(const std::string& actor, const std::string& job,
                                     const std::string& reason) {
  return changed(actor, fmt::format("cancel_job {} {}", job, reason), named(job, job_json(job)));
}
Result<View> FakeService::job(const std::string& id, bool with_folder) {
  return known(id, "job-1", named(id, job_json(id, with_folder)));
}
Result<Page> FakeService::jobs(const pipeline::JobFilter& filter, const pipeline::PageRequest&) {
  job_filter = filter;
  return Page{{named("job-1", job_json("job-1"))}, {}};
}
Result<View> FakeService::job_log(const pipeline::JobLogRequest& request) {
  log_request = request;
  return known(request.job, "job-1",
               named(request.job, R"({"job":"job-1","file":"log","files":["log"],"from":0,"next":5,"size":5,)"
                                  R"("text":"done\n","ended":true})"));
}
Result<Page> FakeService::blocks(const pipeline::PageRequest&) {
  return Page{{named("bl-1", kBlock)}, {}};
}
Result<View> FakeService::contract(const std::string& asked) {
  return known(asked, "c", contract_view());
}
Result<View> FakeService::kernel(const std::string& asked) {
  return known(asked, "k", kernel_view());
}
Result<View> FakeService::engine(const std::string& asked) {
  return known(asked, "e", engine_view());
}
Result<View> FakeService::model(const std::string& asked) {
  return known(asked, "m", named("m", kModel));
}
Result<View> FakeService::promotion(const std::string& asked) {
  const std::lock_guard lock(mutex);
  if (!asked.starts_with("pr-"))
    return fail(ErrorCode::not_found, fmt::format("there is no promotion '{}'", asked));
  return named(asked, promotion_json(asked, state));
}
Result<View> FakeService::what_if(const std::string& id, std::string_view text, const std::stop_token& stop) {
  if (during_what_if) during_what_if(stop);
  if (text.empty()) return schema::fail(ErrorCode::invalid_document, "the contract is empty");
  return View{id, 0, false, R"({"promotion":"pr-1","stages":[],"verdict":"pass"})"};
}

Result<View> FakeService::report(const std::string& id, const std::string& stage) {
  return known(id + stage, "pr-1canary", named("report", R"({"verdicts":[]})"));
}
Result<Page> FakeService::contracts(const PageRequest& page) {
  return page_of(contract_view(), page);
}
Result<Page> FakeService::kernels(const PageRequest& page) {
  return page_of(kernel_view(), page);
}
Result<Page> FakeService::engines(const PageRequest& page) {
  return page_of(engine_view(), page);
}
Result<Page> FakeService::models(const PageRequest& page) {
  return page_of(named("m", kModel), page);
}
Result<View> FakeService::promotion_item(const std::string& id) {
  return promotion(id);
}
Result<std::vector<View>> FakeService::open_items() {
  const std::lock_guard lock(mutex);
  ++looks;
  std::vector<View> items;
  for (const auto& id : open) items.push_back(named(id, promotion_json(id, state)));
  return items;
}
Result<pipeline::Overview> FakeService::overview(const std::string&, const PageRequest& page) {
  const std::string item =
      R"({"model":"m","incumbent":null,"hold":null,"guard":null,"route_agrees":true,"promotion":)" +
      promotion_json("pr-1", state) + R"(,"last":null,"schedules":[]})";
  return pipeline::Overview{page_of(named("m", item), page),
                            R"({"models":1,"open":1,"need_people":0,"holds":0,"alarms":0})", 10};
}
Result<Page> FakeService::promotions(const pipeline::PromotionFilter& asked, const PageRequest& page) {
  filter = asked;
  return page_of(named("pr-1", promotion_json("pr-1", state)), page);
}
std::unique_ptr<pipeline::Subscription> FakeService::subscribe(std::function<void(const pipeline::Event&)>) {
  return std::make_unique<pipeline::Subscription>();
}
Result<pipeline::Outcome> FakeService::outcome(const std::string& asked) {
  const std::lock_guard lock(mutex);
  if (!asked.starts_with("pr-"))
    return fail(ErrorCode::not_found, fmt::format("there is no promotion '{}'", asked));
  return pipeline::Outcome{state, state != "running"};
}
pipeline::ServiceFigures FakeService::figures() {
  auto figures = figures_now;
  figures.promotions_by_state = {{"running", 1}, {"succeeded", 2}};
  figures.jobs = {{{"slurm", "queued"}, 3}};
  figures.models = 1;
  return figures;
}

Result<auth::Principal> FakeTokens::authenticate(std::string_view bearer) {
  if (!bearer.starts_with("dg_")) return fail(ErrorCode::unauthenticated, "unknown token");
  const auto scopes = auth::parse_scopes(bearer.substr(3));
  if (!scopes) return fail(ErrorCode::unauthenticated, "unknown token");
  return auth::Principal{"tok-1", std::string(bearer.substr(3)), *scopes};
}
Result<auth::Principal> FakeTokens::authenticate_session(std::string_view cookie) {
  const auto scopes = auth::parse_scopes(cookie);
  if (ended || !scopes) return fail(ErrorCode::unauthenticated, "unknown session");
  return auth::Principal{"tok-1", std::string(cookie), *scopes, "se-1", 50'000'000};
}
Result<auth::OpenedSession> FakeTokens::open_session(const auth::Principal& principal) {
  if (!principal.session_id.empty()) return fail(ErrorCode::forbidden, "a session needs a token");
  return auth::OpenedSession{principal.name, 50'000'000};
}
Result<void> FakeTokens::end_session(const auth::Principal& principal) {
  ended = principal.session_id == "se-1";
  return {};
}
Result<void> FakeTokens::check(const auth::Principal&) {
  if (ended) return fail(ErrorCode::unauthenticated, "the token was revoked");
  return {};
}
Result<void> FakeTokens::check_in(store::Reader&, const auth::Principal& principal) {
  return check(principal);
}
Result<auth::IssuedToken> FakeTokens::issue(const auth::TokenRequest& request) {
  auth::TokenInfo info;
  info.id = "tok-2";
  info.name = request.name;
  info.scopes = request.scopes;
  info.granted_by = request.granted_by;
  info.created_us = 1;
  info.expires_us = request.expires_us;
  return auth::IssuedToken{info, std::string("dg_") + kHash};
}
Result<std::vector<auth::TokenInfo>> FakeTokens::list() {
  auth::TokenInfo info;
  info.id = "tok-1";
  info.name = "ada";
  info.scopes = {auth::Scope::viewer};
  return std::vector{info};
}
Result<void> FakeTokens::revoke(std::string_view id, std::string_view) {
  if (id != "tok-1") return fail(ErrorCode::not_found, "no such token");
  return {};
}

std::string FakeEvidence::entry_json(std::int64_t seq, const std::string& kind) {
  return fmt::format(
      R"({{"actor":"driftgate","body":{{"reason":"a reason"}},"kind":"{}","seq":{},"subject":{{"promotion":"pr-1"}},)"
      R"("time_us":1,"v":1}})",
      kind, seq);
}
Result<evidence::EntryPage> FakeEvidence::page(const evidence::EntryFilter& filter) {
  evidence::EntryPage page;
  ++pages;
  page.tree_size = static_cast<std::uint64_t>(size);
  for (std::int64_t seq = filter.cursor.value_or(-1) + 1; seq < size; ++seq) {
    if (filter.promotion && seq % 2 != 0) continue;
    if (static_cast<std::int64_t>(page.entries.size()) == filter.limit) {
      page.next = page.entries.back().seq;
      break;
    }
    page.entries.push_back({seq, entry_json(seq, kind)});
  }
  return page;
}
Result<std::string> FakeEvidence::entry(std::uint64_t seq) {
  if (seq >= static_cast<std::uint64_t>(size)) return fail(ErrorCode::not_found, "no such entry");
  return entry_json(static_cast<std::int64_t>(seq));
}
Result<std::string> FakeEvidence::checkpoint() {
  return std::string("origin\n10\nroot\n");
}
Result<EntryProof> FakeEvidence::proof(std::uint64_t seq) {
  return EntryProof{seq, static_cast<std::uint64_t>(size), kHash, kHash, {kHash}, "note"};
}
Result<ConsistencyProof> FakeEvidence::consistency(std::uint64_t from, std::uint64_t to) {
  return ConsistencyProof{from, to, {kHash}, {kHash, "note", {}}};
}
std::string FakeEvidence::verifier_key() {
  return "origin+0+key";
}
Result<std::string> FakeEvidence::served_at(const std::string& model, std::int64_t time_us) {
  if (model != "tiny") return schema::fail(ErrorCode::not_found, "no route of model " + model);
  return nlohmann::json{{"model", model},
                        {"time_us", time_us},
                        {"tree_size", size},
                        {"applied", {{"seq", 3}, {"time_us", 5}}},
                        {"desired", nullptr},
                        {"slices", nlohmann::json::array()},
                        {"served",
                         {{{"role", "incumbent"},
                           {"version", "ve-1"},
                           {"share_bp", 10'000},
                           {"since", {{"seq", 3}, {"time_us", 5}}},
                           {"origin", nullptr},
                           {"allowed", true}}}}}
      .dump();
}
Result<AuditedPopulation> FakeEvidence::population(const evidence::PopulationRequest& request) {
  evidence::Population found{.tree_size = static_cast<std::uint64_t>(size), .span = {2, 8}};
  found.items = R"([{"seq":4,"time_us":9,"how":"promotion","promotion":"pr-1"}])";
  if (!request.cursor) found.next = 4;
  const std::string hash(64, 'a');
  return AuditedPopulation{found, {hash, "from note", {hash}}, {hash, "to note", {}}, {hash}};
}
Result<std::string> FakeEvidence::sample(const evidence::SampleRequest& request) {
  return nlohmann::json{
      {"seed", request.seed}, {"size", size}, {"population", size}, {"items", nlohmann::json::array()}}
      .dump();
}
Result<evidence::EntryPage> FakeEvidence::exceptions(const evidence::ExceptionsRequest& request) {
  return page({.model = request.model, .cursor = request.cursor, .limit = request.limit});
}

namespace {

class FakeBundle final : public net::BodySource {
 public:
  explicit FakeBundle(std::string line) : line_(std::move(line)) {}
  Result<std::string> next() override { return std::exchange(line_, {}); }

 private:
  std::string line_;
};

}  // namespace

Result<void> FakeEvidence::find_bundle(const evidence::BundleRequest& request) {
  if (!request.promotion.empty() && request.promotion != "pr-1")
    return fail(ErrorCode::not_found, "there is no such promotion");
  return {};
}

Result<std::shared_ptr<net::BodySource>> FakeEvidence::bundle(const evidence::BundleRequest& request) {
  return std::make_shared<FakeBundle>(fmt::format("{} {} {} {} {}\n", request.promotion, request.from_us,
                                                  request.to_us, request.older_size.value_or(0),
                                                  request.with_tables));
}

Result<void> FakeEvidence::note_read(const std::string& actor, const std::string& what) {
  reads.push_back(actor + " " + what);
  return {};
}

Result<std::string> FakeDesk::list() {
  return fmt::format(R"({{"items":[{}],"next":null}})", kWebhook);
}
Result<std::string> FakeDesk::test(const std::string& actor, const std::string& name) {
  calls.push_back(fmt::format("{} test {}", actor, name));
  return std::string(kWebhook);
}
Result<std::string> FakeDesk::enable(const std::string& name) {
  calls.push_back(fmt::format("enable {}", name));
  return std::string(kWebhook);
}

Result<std::optional<store::StoredResponse>> FakeIdempotency::find(const store::KeyedRequest& request) {
  const auto found = kept.find(fmt::format("{} {}", request.principal, request.key));
  if (found == kept.end()) return std::nullopt;
  if (found->second.digest != request.digest)
    return fail(ErrorCode::invalid_argument, "the key was used with another request");
  return found->second.response;
}
Result<void> FakeIdempotency::keep(const store::KeyedRequest& request, const store::StoredResponse& response) {
  kept[fmt::format("{} {}", request.principal, request.key)] = {std::string(request.digest), response};
  return {};
}

Result<void> FakeIdempotency::replace(const store::KeyedRequest& request,
                                      const store::StoredResponse& response) {
  const auto found = kept.find(fmt::format("{} {}", request.principal, request.key));
  if (found == kept.end()) return fail(ErrorCode::not_found, "nothing is kept");
  found->second.response = response;
  return {};
}

namespace {

View schedule_view() {
  return {
      "nightly", 3, false,
      R"({"name":"nightly","cron":"0 2 * * *","timezone":"UTC","model":"m","promotion":{},"misfire":"skip",)"
      R"("grace_s":0,"if_running":"skip","paused":false,"owner":"ada","created_us":1,"updated_us":2,)"
      R"("revision":3,"next_us":null,"fires":[]})"};
}

Result<View> at_revision(const std::string& name, std::uint64_t revision) {
  if (name != "nightly") return fail(ErrorCode::not_found, "there is no such schedule");
  if (revision != 3) return fail(ErrorCode::conflict, "it was changed meanwhile");
  return schedule_view();
}

}  // namespace

Result<View> FakeSchedules::create(const std::string&, const pipeline::ScheduleRequest&) {
  auto view = schedule_view();
  view.created = true;
  return view;
}
Result<View> FakeSchedules::replace(const std::string&, const pipeline::ScheduleRequest& request,
                                    std::uint64_t revision) {
  return at_revision(request.name, revision);
}
Result<View> FakeSchedules::set_paused(const std::string&, const std::string& name, bool,
                                       std::uint64_t revision) {
  return at_revision(name, revision);
}
Result<void> FakeSchedules::remove(const std::string&, const std::string& name, std::uint64_t revision) {
  const auto found = at_revision(name, revision);
  if (!found) return std::unexpected(found.error());
  return {};
}
Result<View> FakeSchedules::get(const std::string& name) {
  return at_revision(name, 3);
}
Result<Page> FakeSchedules::list(const PageRequest& page) {
  return page_of(schedule_view(), page);
}
Result<View> FakeSchedules::report(std::optional<std::int64_t> since_us, std::optional<std::int64_t> until_us,
                                   const std::string& model) {
  return View{"", 0, false,
              R"({"since_us":)" + std::to_string(since_us.value_or(1)) + R"(,"until_us":)" +
                  std::to_string(until_us.value_or(2)) + R"(,"model":)" +
                  (model.empty() ? "null" : '"' + model + '"') +
                  R"(,"totals":{"times":0,"fired":0,"skipped":0,"pending":0,"unrecorded":0,"need_people":0,)"
                  R"("skipped_by":{},"promotions":{}},"items":[]})"};
}
Result<View> FakeSchedules::next(const std::string& name, std::size_t) {
  auto view = at_revision(name, 3);
  if (view) view->json = R"({"items":[{"fire_us":5,"local":"2026-01-01 02:00:00 UTC"}]})";
  return view;
}

Result<View> FakeRecipes::get(const std::string& model) {
  if (model != "m" || gone_after == 0)
    return schema::fail(ErrorCode::not_found, "model '" + model + "' has no recipe");
  if (gone_after > 0) --gone_after;
  return View{model, 3, false,
              R"({"model":"m","revision":3,"digest":")" + std::string(kDigest) +
                  R"(","recipe":{"contract":"c"},"set_by":"ada","set_us":5})"};
}
Result<View> FakeRecipes::set(const std::string&, const std::string& model, std::string_view,
                              std::optional<std::uint64_t> revision) {
  if (revision.has_value() != (model == "m") || revision.value_or(3) != 3)
    return schema::fail(ErrorCode::conflict, "it was changed");
  auto view = get("m");
  view->created = !revision;
  return view;
}
Result<std::vector<std::string>> FakeRecipes::remove(const std::string&, const std::string&,
                                                     std::uint64_t revision) {
  if (gone_after == 0) return schema::fail(ErrorCode::not_found, "model 'm' has no recipe");
  if (revision != 3) return schema::fail(ErrorCode::conflict, "it was changed");
  return warnings;
}
Result<pipeline::PromotionRequest> FakeRecipes::complete(std::string_view json) {
  return pipeline::parse_promotion_request(json);
}

}  // namespace driftgate::api::test
