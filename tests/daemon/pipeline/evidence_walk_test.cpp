#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "daemon/evidence/bundle/bundle_export.hpp"
#include "daemon/evidence/bundle/verified_bundles.hpp"
#include "daemon/evidence/bundle/verify_bundle.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/verify/derivation.hpp"
#include "daemon/pipeline/people/redact.hpp"
#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "schema/verdict_rule.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using evidence::BundleResult;
using schema::EvidenceKind;
using store::Reader;

namespace {

constexpr const char* kOrigin = "example.org/log";

template <typename T>
T must(schema::Result<T> result) {
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().describe()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::string all_of(evidence::BundleExport& source) {
  std::string all;
  for (std::string piece = must(source.next()); !piece.empty(); piece = must(source.next())) all += piece;
  return all;
}

/// A pipeline whose log publishes its heads and whose bundles are made and verified with keys of its own.
struct Audited {
  Harness h;
  std::string folder = h.folder.string();
  std::unique_ptr<evidence::HeadPublisher> heads;
  std::optional<evidence::AttestationSigner> signer;
  evidence::VerifyOptions options;

  /// `search`: what stands before the slices' dimensions, in a contract whose statistical clause is about the
  /// corpus then; `edits`: what is replaced in the contract.
  explicit Audited(const std::string& search = "",
                   std::vector<std::pair<std::string, std::string>> edits = {}) {
    if (!search.empty()) {
      edits.emplace_back("dimensions: [language]", search + "dimensions: [language]");
      edits.emplace_back(", slices: [critical]", "");
    }
    for (const auto& [from, to] : edits) {
      REQUIRE_MESSAGE(h.contract.find(from) != std::string::npos, from);
      h.contract.replace(h.contract.find(from), from.size(), to);
    }
    h.set_up();
    const auto key = must(evidence::SigningKey::generate());
    must(key.save(folder + "/log.key"));
    // The pipeline has written entries already, so the first head is that of the empty log.
    std::ofstream(folder + "/head.note", std::ios::binary)
        << must(evidence::sign_checkpoint({kOrigin, 0, evidence::empty_root()}, key));
    evidence::HeadOptions head_options;
    head_options.origin = kOrigin;
    head_options.key_file = folder + "/log.key";
    head_options.head_file = folder + "/head.note";
    heads = must(evidence::HeadPublisher::start(*h.store, head_options));
    signer.emplace(must(evidence::AttestationSigner::open(folder + "/attestation.key", kOrigin)));
    options.trust.keys = {
        {.use = evidence::KeyUse::head, .name = kOrigin, .key = key.public_key()},
        {.use = evidence::KeyUse::attestation, .name = kOrigin, .key = signer->public_key()}};
  }
  ~Audited() { heads->stop(); }

  std::string bundle(const evidence::BundleRequest& request) const {
    return all_of(*must(evidence::BundleExport::open(*h.store, *heads, *signer, request)));
  }
  [[nodiscard]] evidence::BundleReport verify(const std::string& bytes) const {
    std::istringstream in(bytes);
    return evidence::verify_bundle(in, options);
  }
  std::vector<schema::Entry> entries(const std::string& promotion) const {
    const auto page = must(h.store->read([&](Reader& reader) {
      return evidence::query_entries(reader, {.promotion = promotion, .limit = evidence::kMaxPage});
    }));
    std::vector<schema::Entry> found;
    for (const auto& entry : page.entries) found.push_back(must(schema::decode_entry(entry.bytes)));
    return found;
  }
};

std::string text_of(const schema::Entry& entry, const char* name) {
  const auto found = entry.draft.body.find(name);
  return found == entry.draft.body.end() || found->second.text() == nullptr ? "" : *found->second.text();
}

std::string all_findings(const evidence::BundleReport& report) {
  std::string text;
  for (const auto& finding : report.findings)
    text += fmt::format("{}: {}\n", evidence::to_string(finding.result), finding.message);
  return text;
}

/// Each state, stage, verdict, approval and route that the API shows has its entry, and each verdict follows
/// from the numbers in its entry.
void check_record(Audited& audited, const std::string& id) {
  CAPTURE(id);
  const auto entries = audited.entries(id);
  const auto view = audited.h.view(id);
  std::vector<std::string> faults;
  evidence::PromotionDerivation derivation(
      [&](std::int64_t seq, const std::string& what) { faults.push_back(fmt::format("{}: {}", seq, what)); });
  for (const auto& entry : entries) derivation.follow(entry);
  CHECK_MESSAGE(faults.empty(), fmt::format("{}", fmt::join(faults, "\n")));
  CHECK(derivation.state() == view["state"]);
  CHECK(derivation.traffic() == view["traffic"]);
  for (const auto& stage : view["stages"]) {
    if (stage["verdict"].is_null()) continue;
    const bool recorded = std::ranges::any_of(derivation.decisions(), [&](const auto& decision) {
      return decision.stage == stage["stage"] && decision.attempt == stage["attempt"] &&
             schema::to_string(decision.verdict) == stage["verdict"].get<std::string>() &&
             (stage["report_digest"].is_null() || decision.report_digest == stage["report_digest"]);
    });
    CHECK_MESSAGE(recorded, stage.dump());
  }
  const auto entry_at = [&](std::int64_t seq) {
    return std::ranges::find_if(entries, [&](const schema::Entry& entry) { return entry.seq == seq; });
  };
  const auto verdicts =
      must(audited.h.store->read([&](Reader& reader) { return store::list_promotion_verdicts(reader, id); }));
  for (const auto& row : verdicts) {
    const auto entry = entry_at(row.evidence_seq);
    REQUIRE(entry != entries.end());
    const auto recorded = must(evidence::clause_verdict_of(entry->draft.body));
    CHECK(schema::to_json(recorded) == row.detail);
    CHECK(schema::to_string(must(schema::rederive(recorded))) == row.verdict);
  }
  const auto approvals =
      must(audited.h.store->read([&](Reader& reader) { return store::list_approvals(reader, id); }));
  for (const auto& approval : approvals) {
    const bool recorded = std::ranges::any_of(entries, [&](const schema::Entry& entry) {
      return entry.draft.kind == EvidenceKind::approval_given && text_of(entry, "approval") == approval.id &&
             entry.draft.actor == approval.who &&
             text_of(entry, "evidence_digest") == approval.evidence_digest;
    });
    CHECK_MESSAGE(recorded, approval.id);
  }
}

/// Every route that the data plane was given was first desired and then recorded as applied.
void check_routes(Audited& audited) {
  std::set<std::pair<std::int64_t, std::int64_t>> desired;
  std::set<std::pair<std::int64_t, std::int64_t>> applied;
  std::int64_t cursor = -1;
  while (true) {
    const auto page = must(audited.h.store->read([&](Reader& reader) {
      return evidence::query_entries(reader, {.model = "m", .cursor = cursor, .limit = evidence::kMaxPage});
    }));
    for (const auto& stored : page.entries) {
      const auto entry = must(schema::decode_entry(stored.bytes));
      const bool is_route =
          entry.draft.kind == EvidenceKind::route_desired || entry.draft.kind == EvidenceKind::route_applied;
      if (!is_route) continue;
      const auto& route = entry.draft.body.at("route");
      const std::pair key{*route.find("epoch")->integer(), *route.find("revision")->integer()};
      (entry.draft.kind == EvidenceKind::route_desired ? desired : applied).insert(key);
    }
    if (!page.next) break;
    cursor = *page.next;
  }
  REQUIRE(!audited.h.driver.applied.empty());
  for (const auto& route : audited.h.driver.applied) {
    const std::pair key{static_cast<std::int64_t>(route.epoch), static_cast<std::int64_t>(route.revision)};
    CHECK_MESSAGE(desired.contains(key), fmt::format("epoch {} revision {}", key.first, key.second));
    CHECK_MESSAGE(applied.contains(key), fmt::format("epoch {} revision {}", key.first, key.second));
  }
}

/// For the tests that change bundles (tests/evidence): where to leave some, with their keys.
void leave(const Audited& audited, const std::string& name, const std::string& bytes) {
  const char* folder = std::getenv("DRIFTGATE_BUNDLES");
  if (folder == nullptr) return;
  std::filesystem::create_directories(folder);
  std::ofstream(std::string(folder) + "/" + name, std::ios::binary) << bytes;
  std::ofstream(std::string(folder) + "/trust.json") << evidence::trust_json(audited.options.trust);
  for (const char* key : {"log.key", "attestation.key"}) {
    std::filesystem::copy_file(audited.folder + "/" + key, std::string(folder) + "/" + key,
                               std::filesystem::copy_options::overwrite_existing);
  }
}

}  // namespace

TEST_CASE(
    "the record of promotions in every kind of end explains what the API shows, in bundles that verify") {
  Audited audited;
  Harness& h = audited.h;
  std::vector<std::string> promotions;

  h.behaviour.capture_error = "logits: ranges overlap";
  promotions.push_back(h.request());
  CHECK(h.run_until(promotions.back(), {"errored"}) == "errored");
  h.behaviour.capture_error.clear();
  promotions.push_back(h.request());
  REQUIRE(h.run_until(promotions.back(), {"awaiting_approval"}, false) == "awaiting_approval");
  must(h.pipeline->abort("olga", promotions.back(), "changed our minds"));
  const std::string older = must(audited.heads->signed_head());

  const auto good = h.request();
  promotions.push_back(good);
  for (int i = 0; i < 20; ++i) h.second();
  const auto older_size = must(evidence::read_checkpoint(older)).checkpoint.size;
  const auto running = audited.bundle({.promotion = good, .older_size = older_size});
  CHECK(audited.verify(running).result == BundleResult::incomplete);
  audited.options.running = true;
  CHECK_MESSAGE(audited.verify(running).result == BundleResult::ok, all_findings(audited.verify(running)));
  audited.options.running = false;
  leave(audited, "running.bundle", running);
  must(h.pipeline->pause("olga", good, "a look"));
  h.second();
  must(h.pipeline->resume("olga", good, "seen"));
  CHECK(h.run_until(good, {"succeeded", "rejected", "errored"}) == "succeeded");
  must(h.pipeline->rollback("olga", good, "a complaint"));
  must(h.pipeline->lift_hold("olga", "m", "looked into"));

  h.behaviour.fails_after = 60;
  promotions.push_back(h.request());
  CHECK(h.run_until(promotions.back(), {"succeeded", "rejected", "errored"}) == "rejected");

  audited.options.older_head = older;
  int number = 0;
  for (const auto& id : promotions) {
    check_record(audited, id);
    const auto bytes = audited.bundle({.promotion = id, .older_size = older_size, .with_tables = id == good});
    const auto report = audited.verify(bytes);
    CHECK_MESSAGE(report.result == BundleResult::ok, all_findings(report));
    CHECK(report.entries == audited.entries(id).size());
    leave(audited, fmt::format("promotion{}.bundle", ++number), bytes);
  }
  check_routes(audited);
  const auto range = audited.bundle({.from_us = 0, .to_us = h.clock.now_us() + 1, .older_size = older_size});
  const auto report = audited.verify(range);
  CHECK_MESSAGE(report.result == BundleResult::ok, all_findings(report));
  CHECK(report.entries == report.tree_size);
  leave(audited, "range.bundle", range);
  const auto middle = audited.entries(good).front().draft.time_us;
  const auto part =
      audited.bundle({.from_us = middle, .to_us = middle + 10'000'000, .older_size = older_size});
  CHECK_MESSAGE(audited.verify(part).result == BundleResult::ok, all_findings(audited.verify(part)));
  leave(audited, "part.bundle", part);
  if (const char* folder = std::getenv("DRIFTGATE_BUNDLES"))
    std::ofstream(std::string(folder) + "/older.note", std::ios::binary) << older;
}

TEST_CASE("every time range is a bundle that verifies, and holds the entries of the range") {
  Audited audited;
  Harness& h = audited.h;
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto entries = audited.entries(id);
  const auto from = entries.front().draft.time_us;
  const auto to = entries.back().draft.time_us;
  for (const auto& [begin, end] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0},
                                                          {0, from},
                                                          {from, from},
                                                          {from, to},
                                                          {from + (to - from) / 3, from + (to - from) / 2},
                                                          {to, to + 1},
                                                          {to + 1, to + 2},
                                                          {0, to + 1}}) {
    CAPTURE(begin - from);
    CAPTURE(end - from);
    const auto report = audited.verify(audited.bundle({.from_us = begin, .to_us = end}));
    CHECK_MESSAGE(report.result == BundleResult::ok, all_findings(report));
  }
}

TEST_CASE("a promotion that its numbers reject has a bundle that says so") {
  Audited audited;
  audited.h.behaviour.numeric_tv = 0.5;
  const auto id = audited.h.request();
  REQUIRE(audited.h.run_until(id, {"rejected"}) == "rejected");
  check_record(audited, id);
  const auto bytes = audited.bundle({.promotion = id});
  const auto report = audited.verify(bytes);
  CHECK_MESSAGE(report.result == BundleResult::ok, all_findings(report));
  CHECK(report.attestations == 2);
  auto cut = bytes.substr(0, bytes.rfind('\n', bytes.size() - 2) + 1);
  CHECK(audited.verify(cut).result == BundleResult::incomplete);
  cut.pop_back();
  CHECK(audited.verify(cut).result == BundleResult::incomplete);
  audited.options.trust.keys.pop_back();
  CHECK(audited.verify(bytes).result == BundleResult::untrusted);
}

TEST_CASE(
    "what the search for slices finds is reported or blocks as the contract says, in bundles that verify") {
  for (const auto& [action, ended] : {std::pair{"action: report", "succeeded"}, std::pair{"action: block", "rejected"},
                                      std::pair{"max_ratio: 1000", "succeeded"}, std::pair{"max_ratio: 2", "rejected"}}) {
    CAPTURE(action);
    Audited audited(fmt::format("discover: {{depth: 1, {}}}, ", action));
    audited.h.behaviour.german_tv = 0.5;  // the corpus has 0.13 and passes
    const auto id = audited.h.request();
    REQUIRE(audited.h.run_until(id, {"succeeded", "rejected", "errored"}) == ended);
    check_record(audited, id);
    const auto verdicts = audited.h.entries(id, "verdict_reached");
    const bool discovered = std::ranges::any_of(verdicts, [](const nlohmann::json& entry) {
      return entry["body"].value("role", "") == "discovered" && entry["body"]["verdict"] == "violated";
    });
    CHECK(discovered);
    const auto report = audited.verify(audited.bundle({.promotion = id}));
    CHECK_MESSAGE(report.result == BundleResult::ok, all_findings(report));
  }
}

TEST_CASE("a healthy canary of two thousand keys has bundles that verify, at every size of its e-values") {
  Audited audited("", {{"min_keys: 60", "min_keys: 2000"}, {"{share: 0.1}, ", ""}});
  const auto id = audited.h.request();
  REQUIRE(audited.h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  check_record(audited, id);
  std::uint64_t keys = 0;
  for (const auto& entry : audited.h.entries(id, "verdict_reached"))
    keys = std::max(keys, entry["body"].value("n", std::uint64_t{0}));
  CHECK(keys >= 2'000);
  const auto one = audited.verify(audited.bundle({.promotion = id}));
  CHECK_MESSAGE(one.result == BundleResult::ok, all_findings(one));
  const auto range = audited.verify(audited.bundle({.from_us = 0, .to_us = audited.h.clock.now_us() + 1}));
  CHECK_MESSAGE(range.result == BundleResult::ok, all_findings(range));
}

TEST_CASE("a bundle is verified before it is handed out, and one that does not verify is not") {
  Audited audited;
  const auto good = audited.h.request();
  REQUIRE(audited.h.run_until(good, {"succeeded"}) == "succeeded");
  std::vector<std::string> logged;
  evidence::VerifiedBundles bundles(*audited.h.store, *audited.heads, *audited.signer,
                                    [&](std::string_view text) { logged.emplace_back(text); });
  const evidence::BundleRequest whole{.from_us = 0, .to_us = audited.h.clock.now_us() + 1};
  for (const evidence::BundleRequest& request :
       {evidence::BundleRequest{.promotion = good, .with_tables = true}, whole}) {
    const auto report = audited.verify(all_of(*must(bundles.open(request))));
    CHECK_MESSAGE(report.result == BundleResult::ok, all_findings(report));
  }
  CHECK(logged.empty());
  CHECK(bundles.find({.promotion = "pr-0"}).error().code == schema::ErrorCode::not_found);

  auto entries = audited.entries(good);
  auto verdict = *std::ranges::find_if(entries, [](const schema::Entry& entry) {
    return entry.draft.kind == EvidenceKind::verdict_reached && text_of(entry, "verdict") == "pass";
  });
  verdict.draft.body["verdict"] = "violated";
  must(audited.h.store->write("a fault of the program", [&](store::Tx& tx) -> schema::Result<void> {
    const auto added = evidence::append(tx, verdict.draft);
    if (!added) return std::unexpected(added.error());
    return {};
  }));
  for (const evidence::BundleRequest& request : {evidence::BundleRequest{.promotion = good}, whole}) {
    const auto refused = bundles.open(request);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == schema::ErrorCode::corrupt);
    CHECK(refused.error().message.find("is not handed out") != std::string::npos);
    CHECK(logged.back().find(refused.error().message) != std::string::npos);
  }
  CHECK(logged.size() == 2);
}

TEST_CASE("a bundle that came to be another one than was verified has no end") {
  Audited audited;
  const auto id = audited.h.request();
  REQUIRE(audited.h.run_until(id, {"succeeded"}) == "succeeded");
  const auto first = must(evidence::BundleExport::open(*audited.h.store, *audited.heads, *audited.signer,
                                                       {.promotion = id, .with_tables = true}));
  const auto bytes = all_of(*first);
  CHECK(all_of(*first->again()) == bytes);
  must(pipeline::redact_promotion(*audited.h.store, "olga", id, "a user asked", audited.h.clock.now_us()));
  const auto second = first->again();
  schema::Result<std::string> piece = second->next();
  while (piece && !piece->empty()) piece = second->next();
  REQUIRE_FALSE(piece.has_value());
  CHECK(piece.error().code == schema::ErrorCode::corrupt);
}

TEST_CASE("in the record, neither who asked nor who set the schedule or the recipe of it may decide") {
  for (const std::string actor : {"schedule/nightly", "sam", "rita", "anna"}) {
    CAPTURE(actor);
    int faults = 0;
    evidence::PromotionDerivation derivation([&](std::int64_t, const std::string&) { ++faults; });
    const auto follow = [&](std::int64_t seq, EvidenceKind kind, const std::string& who,
                            schema::EntryValue::Object body) {
      derivation.follow({.seq = seq, .draft = {.kind = kind, .actor = who, .body = std::move(body)}});
    };
    const schema::EntryValue::Object recipe{{"set_by", "rita"}, {"revision", 3}};
    follow(1, EvidenceKind::promotion_requested, "schedule/nightly",
           {{"request", schema::EntryValue::Object{{"recipe", recipe}}}});
    follow(2, EvidenceKind::schedule_fired, "schedule/nightly", {{"owner", "sam"}});
    follow(3, EvidenceKind::approval_given, actor, {{"decision", "approve"}});
    CHECK(faults == (actor == "anna" ? 0 : 1));
  }
}

TEST_CASE("in the record, people are told apart as the entry says") {
  const auto faults_of = [](const std::string& actor, schema::EntryValue::Object rule) {
    int faults = 0;
    evidence::PromotionDerivation derivation([&](std::int64_t, const std::string&) { ++faults; });
    derivation.follow({.seq = 1, .draft = {.kind = EvidenceKind::promotion_requested, .actor = "sam"}});
    rule["decision"] = "waive";
    derivation.follow({.seq = 2, .draft = {.kind = EvidenceKind::waiver_given, .actor = actor, .body = std::move(rule)}});
    return faults;
  };
  CHECK(faults_of("sam", {}) == 1);
  CHECK(faults_of("Sam", {}) == 0);  // written when names were compared exactly
  CHECK(faults_of("Sam", {{"people_rule", 1}}) == 0);
  CHECK(faults_of("Sam", {{"people_rule", "2"}}) == 0);
  CHECK(faults_of("Sam", {{"people_rule", true}}) == 0);
  CHECK(faults_of("Sam", {{"people_rule", 2}}) == 1);
  CHECK(faults_of("anna", {{"people_rule", 2}}) == 0);
}
