#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "daemon/api/api.hpp"
#include "daemon/api/stored_ports.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/net/request.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "tests/daemon/api/fakes.hpp"
#include "tests/fault/column.hpp"
#include "tests/fault/failpoints.hpp"

using namespace driftgate;
using driftgate::fault::Failpoints;
using driftgate::fault::Killed;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;

namespace {

/// A request that makes something, the kind of entry that says so, and how often that entry is there before.
struct Creating {
  const char* path;
  std::string body;
  schema::EvidenceKind kind;
};

/// Asks the API over the harness's pipeline and store, as the daemon puts them together.
struct Client {
  explicit Client(Harness& harness) : h(harness) {
    const auto issue = [&](store::Tx& tx) {
      return auth::issue_token(
          tx, {.name = "pia", .scopes = {auth::Scope::promoter, auth::Scope::operator_}, .granted_by = "admin"},
          auth::random_secret(), h.clock.now_us_);
    };
    auto issued = h.store->write("issue", issue);
    REQUIRE(issued.has_value());
    bearer = issued->bearer;
  }

  net::Response post(const Creating& request) {
    const auto now = [this] { return h.clock.now_us_; };
    const auto tokens = api::stored_tokens(*h.store, now);
    const auto idempotency = api::stored_idempotency(*h.store, now);
    const auto schedules = pipeline::stored_schedules(*h.store, now);
    const auto recipes = pipeline::stored_recipes(*h.store, now);
    api::Context context{*h.pipeline, *tokens, evidence, *idempotency, now, {}, {}, {}};
    context.schedules = schedules.get();
    context.recipes = recipes.get();
    api::Api served(std::move(context));
    auto head = net::parse_request_head(fmt::format(
        "POST {} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nIdempotency-Key: k\r\n\r\n", request.path, bearer));
    REQUIRE(head);
    net::Request asked;
    static_cast<net::RequestHead&>(asked) = std::move(*head);
    asked.body = request.body;
    auto refusal = served.before_body(asked);
    return refusal ? std::move(*refusal) : served.handle(asked);
  }

  std::size_t entries(schema::EvidenceKind kind) const {
    return h.entries("", std::string(schema::to_string(kind))).size();
  }

  Harness& h;
  api::test::FakeEvidence evidence;
  std::string bearer;
};

bool is_replayed(const net::Response& response) {
  return net::find_header(response.headers, "Idempotency-Replayed").has_value();
}

/// The names of the steps that the request takes; killed at `at`, before or after it, and then repeated.
std::vector<std::string> ask(const Creating& request, std::int64_t at, bool after) {
  Harness h;
  h.set_up();
  Client client(h);
  const auto before = client.entries(request.kind);
  Failpoints points(at, after);
  points.attach(h);
  std::optional<net::Response> first;
  while (!first) {
    try {
      first = client.post(request);
    } catch (const Killed&) {
      fault::boot(h);
    }
  }
  CHECK_MESSAGE(first->status == 201, first->body);
  CHECK(client.entries(request.kind) == before + 1);
  for (int i = 0; i < 2; ++i) {
    const auto again = client.post(request);
    CHECK(again.status == 201);
    CHECK(again.body == first->body);
    CHECK(is_replayed(again));
    fault::boot(h);
  }
  CHECK(client.entries(request.kind) == before + 1);
  const auto verified = evidence::verify_log(*h.store);
  CHECK_MESSAGE(verified.has_value(), (verified ? "" : verified.error().describe()));
  return points.names;
}

}  // namespace

TEST_CASE("a request that is killed at any of its durable steps and repeated with its key acts once") {
  const std::string promotion = R"({"model": "m", "engine": "new", "contract": "test", "captures": {)"
                                R"("numeric": {"train": "train.safetensors", "inf": "inf.safetensors", "corpus": "corpus.jsonl"}, )"
                                R"("slice": {"train": "train.safetensors", "inf": "inf.safetensors", "corpus": "corpus.jsonl"}}})";
  const Creating requests[] = {
      {"/v1/promotions", promotion, schema::EvidenceKind::promotion_requested},
      {"/v1/models", R"({"name": "second", "engine": "old", "reason": "one more"})",
       schema::EvidenceKind::model_bootstrapped},
      {"/v1/kernels", R"({"name": "late", "dtype": "fp8"})", schema::EvidenceKind::kernel_registered},
      {"/v1/schedules", R"({"name": "nightly", "cron": "0 2 * * *", "timezone": "UTC", "promotion": )" + promotion + "}",
       schema::EvidenceKind::schedule_set}};
  std::int64_t killed = 0;
  for (const Creating& request : requests) {
    CAPTURE(request.path);
    const auto steps = static_cast<std::int64_t>(ask(request, -1, false).size());
    for (std::int64_t at = 0; at < steps; ++at) {
      for (const bool after : {false, true}) {
        CAPTURE(at);
        CAPTURE(after);
        ask(request, at, after);
        ++killed;
      }
    }
  }
  REQUIRE(killed > 4);
  fault::tell("requests killed at each durable step and repeated", 0,
              fmt::format("{} kills of 4 kinds of request, each acted once and gave one answer", killed));
}

TEST_CASE("of two requests with one key that run at the same time, the one that commits second gets the answer of the first") {
  Harness h;
  h.set_up();
  Client client(h);
  const Creating request{"/v1/kernels", R"({"name": "late", "dtype": "fp8"})", schema::EvidenceKind::kernel_registered};
  std::optional<net::Response> inner;
  bool overtaken = false;
  h.committer->before = [&](std::string_view) {
    if (!std::exchange(overtaken, true)) inner = client.post(request);
  };
  const auto outer = client.post(request);
  REQUIRE(inner.has_value());
  CHECK(inner->status == 201);
  CHECK_FALSE(is_replayed(*inner));
  CHECK(outer.status == 201);
  CHECK(is_replayed(outer));
  CHECK(outer.body == inner->body);
  CHECK(client.entries(request.kind) == 4);
}
