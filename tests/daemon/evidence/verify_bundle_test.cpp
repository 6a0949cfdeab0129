// A bundle of a promotion with one thing changed, and its end made anew as a forger would: what it is found
// to be, and that the finding names the place.
#include "daemon/evidence/bundle/verify_bundle.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/base/base64.hpp"
#include "daemon/store/blobs.hpp"
#include "schema/sha256.hpp"
#include "tests/daemon/evidence/promotion_log.hpp"

using namespace driftgate;
using driftgate::base::from_base64;
using driftgate::base::to_base64;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using nlohmann::json;
using schema::EvidenceKind;

namespace {

/// The 16 entries of pr-1, and the lines of its bundle: header, contract, entries 0 to 15, five attestations,
/// end.
struct Whole : PromotionLog {
  Lines lines;
  Whole() {
    succeed();
    lines = lines_of(bundle());
    REQUIRE(lines.size() == 24);
  }
};
constexpr std::size_t kHeader = 0, kBlob = 1, kEntries = 2, kAttestations = 18, kEnd = 23;

/// Another last character of a text that stays as long as it is.
json touched(const json& text) {
  auto changed = text.get<std::string>();
  changed.back() = changed.back() == '0' ? '1' : '0';
  return changed;
}

void replace(json& text, const std::string& from, const std::string& to) {
  auto changed = text.get<std::string>();
  REQUIRE(changed.find(from) != changed.npos);
  text = changed.replace(changed.find(from), from.size(), to);
}

const std::vector<Change> kChanges = {
    {"version", [](Lines& l) { l[kHeader]["v"] = 2; }, BundleResult::tampered, "v must be 1"},
    {"member", [](Lines& l) { l[kHeader]["more"] = 1; }, BundleResult::tampered, "more must be absent"},
    {"origin", [](Lines& l) { l[kHeader]["origin"] = "example.org/other"; }, BundleResult::tampered,
     "origin or tree_size of the header is not what the checkpoint says"},
    {"size", [](Lines& l) { l[kHeader]["tree_size"] = 15; }, BundleResult::tampered,
     "origin or tree_size of the header is not what the checkpoint says"},
    {"text size", [](Lines& l) { l[kHeader]["tree_size"] = "16"; }, BundleResult::tampered,
     "origin, tree_size and checkpoint must be text, number, text"},
    {"checkpoint's size", [](Lines& l) { replace(l[kHeader]["checkpoint"], "\n16\n", "\n17\n"); },
     BundleResult::tampered, "the checkpoint: its signature does not verify"},
    {"no note", [](Lines& l) { l[kHeader]["checkpoint"] = "16 entries"; }, BundleResult::tampered,
     "the checkpoint: not a signed tlog-checkpoint"},
    {"other promotion", [](Lines& l) { l[kHeader]["promotion"] = "pr-2"; }, BundleResult::tampered,
     "entry 0: subject/promotion is not pr-2"},
    {"no promotion", [](Lines& l) { l[kHeader]["promotion"] = ""; }, BundleResult::tampered,
     "promotion must be the name of one"},
    {"header twice", [](Lines& l) { l.insert(l.begin() + 1, l[kHeader]); }, BundleResult::tampered,
     "the header must be the first line, once"},
    {"no header", [](Lines& l) { erase_line(l, kHeader); }, BundleResult::tampered,
     "the header must be the first line, once"},
    {"kind", [](Lines& l) { l[kBlob]["t"] = "blub"; }, BundleResult::tampered,
     "there are no lines of the kind 'blub'"},
    {"no contract", [](Lines& l) { erase_line(l, kBlob); }, BundleResult::incomplete,
     "is not in front of the entries"},
    {"contract's bytes", [](Lines& l) { l[kBlob]["bytes"] = to_base64("{}"); }, BundleResult::tampered,
     "its bytes have another digest"},
    {"contract's base 64", [](Lines& l) { l[kBlob]["bytes"] = "e30"; }, BundleResult::tampered,
     "digest and bytes must be a digest and base 64"},
    {"two contracts", [](Lines& l) { l.insert(l.begin() + kBlob, l[kBlob]); }, BundleResult::tampered,
     "only the contract stands before the entries"},
    {"contract behind",
     [](Lines& l) { std::rotate(l.begin() + kBlob, l.begin() + kEntries, l.begin() + kEnd); },
     BundleResult::incomplete, "is not in front of the entries"},
    {"first entry", [](Lines& l) { erase_line(l, kEntries); }, BundleResult::incomplete,
     "entry 1 is not the first about pr-1"},
    {"middle entry", [](Lines& l) { erase_line(l, kEntries + 6); }, BundleResult::incomplete,
     "entry 6 is missing: entry 7 follows it"},
    {"last entry", [](Lines& l) { erase_line(l, kAttestations - 1); }, BundleResult::incomplete,
     "the promotion has not ended in this bundle: it is finalizing"},
    {"swapped entries", [](Lines& l) { std::swap(l[kEntries + 4], l[kEntries + 5]); }, BundleResult::tampered,
     "entry 4 stands after entry 5"},
    {"entry twice", [](Lines& l) { l.insert(l.begin() + kEntries + 3, l[kEntries + 2]); },
     BundleResult::tampered, "entry 2 stands after entry 2"},
    {"entry's bytes", [](Lines& l) { replace(l[kEntries + 2]["entry"], "as it is", "as it was"); },
     BundleResult::tampered, "entry 2: its inclusion proof does not verify"},
    {"entry's spelling", [](Lines& l) { replace(l[kEntries + 2]["entry"], ",\"body\"", ", \"body\""); },
     BundleResult::tampered, "entry 2: "},
    {"entry's number", [](Lines& l) { l[kEntries + 2]["seq"] = 3; }, BundleResult::tampered,
     "entry 3: its own seq is 2"},
    {"proof", [](Lines& l) { l[kEntries + 9]["proof"][0] = touched(l[kEntries + 9]["proof"][0]); },
     BundleResult::tampered, "entry 9: its inclusion proof does not verify"},
    {"short proof", [](Lines& l) { l[kEntries + 9]["proof"].erase(3); }, BundleResult::tampered,
     "entry 9: its inclusion proof does not verify"},
    {"proof of another", [](Lines& l) { l[kEntries + 9]["proof"] = l[kEntries + 8]["proof"]; },
     BundleResult::tampered, "entry 9: its inclusion proof does not verify"},
    {"short hash", [](Lines& l) { l[kEntries + 9]["proof"][0] = "abcd"; }, BundleResult::tampered,
     "proof must be a list of hashes"},
    {"capital hash", [](Lines& l) { l[kEntries]["proof"][0] = std::string(64, 'A'); }, BundleResult::tampered,
     "proof must be a list of hashes"},
    {"no proof", [](Lines& l) { l[kEntries + 9].erase("proof"); }, BundleResult::tampered,
     "proof must be there"},
    {"no attestation", [](Lines& l) { erase_line(l, kAttestations + 4); }, BundleResult::incomplete,
     "the bundle has 4 of 5 attestations"},
    {"attestation's payload",
     [](Lines& l) {
       json& payload = l[kAttestations]["envelope"]["payload"];
       std::string statement = from_base64(payload.get<std::string>()).value();
       payload = to_base64(statement.replace(statement.find("PASSED"), 6, "FAILED"));
     },
     BundleResult::tampered, "attestation 1: its signature does not verify"},
    {"swapped attestations", [](Lines& l) { std::swap(l[kAttestations], l[kAttestations + 1]); },
     BundleResult::tampered, "attestation 1 stands in another's place"},
    {"attestation twice", [](Lines& l) { l.insert(l.begin() + kAttestations, l[kAttestations]); },
     BundleResult::tampered, "attestation 2 stands in another's place"},
    {"key of an attestation",
     [](Lines& l) {
       json& id = l[kAttestations]["envelope"]["signatures"][0]["keyid"];
       id = touched(id);
     },
     BundleResult::untrusted, "attestation 1 is signed by the key"},
    {"type of an attestation",
     [](Lines& l) { l[kAttestations]["envelope"]["payloadType"] = "application/json"; },
     BundleResult::tampered, "payloadType must be that of in-toto"},
    {"second signature",
     [](Lines& l) {
       json& signatures = l[kAttestations]["envelope"]["signatures"];
       signatures.push_back(signatures[0]);
     },
     BundleResult::tampered, "it must have one signature"},
    {"attestation before", [](Lines& l) { std::swap(l[kAttestations], l[kAttestations - 1]); },
     BundleResult::tampered, "its lines are not in their order"},
    {"blob of nobody",
     [](Lines& l) {
       const json blob{{"t", "blob"}, {"digest", schema::sha256_digest("x")}, {"bytes", to_base64("x")}};
       l.insert(l.begin() + kEnd, blob);
     },
     BundleResult::incomplete, "is named by no entry that is here"},
    {"blobs out of order",
     [](Lines& l) {
       for (const char* bytes : {"x", "y", "z"}) {
         const json blob{
             {"t", "blob"}, {"digest", schema::sha256_digest(bytes)}, {"bytes", to_base64(bytes)}};
         l.insert(l.begin() + kEnd, blob);
       }
     },
     BundleResult::tampered, "its blobs are not sorted by falling digest"},
    {"range",
     [](Lines& l) {
       const json range{
           {"t", "range"}, {"first", 0}, {"end", 0}, {"left", json::array()}, {"right", json::array()}};
       l.insert(l.begin() + 1, range);
     },
     BundleResult::tampered, "a range stands after the header, once"},
    {"late consistency",
     [](Lines& l) {
       const json line{
           {"t", "consistency"}, {"size", 0}, {"root", std::string(64, '0')}, {"proof", json::array()}};
       l.insert(l.begin() + kAttestations, line);
     },
     BundleResult::tampered, "a consistency proof stands after the header"},
};

}  // namespace

TEST_CASE_FIXTURE(Whole, "a bundle verifies as it was made, and says how much was looked at") {
  const auto report = verify(joined(lines));
  CHECK_MESSAGE(report.result == BundleResult::ok, text_of(report));
  CHECK(report.subject == "promotion pr-1");
  CHECK(report.tree_size == 16);
  CHECK(report.entries == 16);
  CHECK(report.verdicts == 4);
  CHECK(report.attestations == 5);
  CHECK(report.blobs == 1);
  CHECK(sealed(lines) == joined(lines));
}

TEST_CASE_FIXTURE(Whole, "each change of a bundle is found and named, though its end was made anew") {
  check_changes(lines, kChanges, sealed);
}

TEST_CASE_FIXTURE(Whole, "an end that does not fit, and a bundle that is cut anywhere, is found") {
  const std::string whole = joined(lines);
  const std::vector<Change> changes = {
      {"count", [](Lines& l) { l[kEnd]["entries"] = 17; }, BundleResult::incomplete,
       "the bundle should have 17 entries, 5 attestations and 1 blobs, it has 16, 5 and 1"},
      {"digest", [](Lines& l) { l[kEnd]["digest"] = touched(l[kEnd]["digest"]); }, BundleResult::tampered,
       "the bundle's lines are not those whose digest its end has"},
      {"line behind", [](Lines& l) { l.push_back(l[kAttestations]); }, BundleResult::tampered,
       "there are lines after the end"},
      {"two ends", [](Lines& l) { l.push_back(l[kEnd]); }, BundleResult::tampered,
       "there are lines after the end"},
      {"no end", [](Lines& l) { l.pop_back(); }, BundleResult::incomplete,
       "the bundle has no end: it was cut off"},
      {"header alone", [](Lines& l) { l.resize(1); }, BundleResult::incomplete,
       "there is no entry about pr-1"},
      {"nothing", [](Lines& l) { l.clear(); }, BundleResult::incomplete, "the bundle is empty"},
  };
  check_changes(lines, changes, joined);
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    CAPTURE(size);
    CHECK(verify(whole.substr(0, size)).result == BundleResult::incomplete);
  }
  CHECK(text_of(verify(whole.substr(0, whole.size() - 1))).find("the last line is cut off") !=
        std::string::npos);
  CHECK(verify("\xEF\xBB\xBF" + whole).result == BundleResult::tampered);
  CHECK(verify("\n" + whole).result == BundleResult::tampered);
}

TEST_CASE_FIXTURE(PromotionLog,
                  "a promotion that still runs is incomplete unless the auditor says that it may") {
  request();
  state("running", "offline-numeric");
  const auto bytes = bundle();
  const auto report = verify(bytes);
  CHECK(report.result == BundleResult::incomplete);
  CHECK_MESSAGE(text_of(report).find("it is running. If it was still running") != std::string::npos,
                text_of(report));
  options.running = true;
  const auto accepted = verify(bytes);
  CHECK_MESSAGE(accepted.result == BundleResult::ok, text_of(accepted));
  REQUIRE(accepted.notes.size() == 1);
  CHECK(accepted.notes[0] == "the promotion had not ended: it was running");
}

TEST_CASE_FIXTURE(Whole,
                  "a bundle is believed by the keys of the trust file, for their use and their time alone") {
  const std::string whole = joined(lines);
  const TrustFile good = options.trust;
  const auto found = [&](const std::function<void(TrustedKey & head, TrustedKey & attestation)>& change) {
    options.trust = good;
    change(options.trust.keys[0], options.trust.keys[1]);
    const auto report = verify(whole);
    CHECK_MESSAGE(report.result == BundleResult::untrusted, text_of(report));
    return text_of(report);
  };
  const auto has = [](const std::string& text, const char* words) {
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  };
  has(found([](TrustedKey& head, TrustedKey&) { head.key[0] ^= 1; }),
      "the trust file has none of them for that size");
  has(found([](TrustedKey& head, TrustedKey&) { head.name = "example.org/log"; }),
      "the trust file has none of them for that size");
  has(found([](TrustedKey& head, TrustedKey&) { head.from_size = 17; }),
      "the trust file has none of them for that size");
  has(found([](TrustedKey& head, TrustedKey&) { head.use = KeyUse::attestation; }),
      "the checkpoint of driftgate.local/log at 16 entries is signed by the keys");
  has(found([](TrustedKey&, TrustedKey& attestation) { attestation.use = KeyUse::head; }),
      "attestation 1 is signed by the key");
  has(found([](TrustedKey&, TrustedKey& attestation) { attestation.name = "other"; }),
      "attestation 5 is signed by the key");
  has(found([&](TrustedKey& head, TrustedKey&) { head.until_us = now_us; }),
      "the head key driftgate.local/log+");
  has(found([&](TrustedKey&, TrustedKey& attestation) { attestation.until_us = now_us; }),
      "was retired before the newest entry of the bundle");
  options.trust = good;
  options.trust.keys[0].from_size = 16;
  options.trust.keys[0].until_us = options.trust.keys[1].until_us = now_us + 1;
  CHECK_MESSAGE(verify(whole).result == BundleResult::ok, text_of(verify(whole)));
}

TEST_CASE_FIXTURE(Whole, "a head of the size of a rotation may be by the key before it, a larger one not") {
  const auto other = must(SigningKey::generate());
  const std::string whole = joined(lines);
  options.trust.keys.push_back(
      {.use = KeyUse::head, .name = HeadOptions{}.origin, .key = other.public_key(), .from_size = 16});
  CHECK_MESSAGE(verify(whole).result == BundleResult::ok, text_of(verify(whole)));
  options.trust.keys.back().from_size = 15;
  CHECK(verify(whole).result == BundleResult::untrusted);
}

TEST_CASE_FIXTURE(Whole, "the head of a bundle must continue the head that an auditor kept") {
  const auto key = must(SigningKey::load((dir.path() / "log.key").string()));
  const std::string origin = HeadOptions{}.origin;
  const auto note = [&](std::uint64_t size, const Hash& root, const std::string& name) {
    return must(sign_checkpoint({name, size, root}, key));
  };
  const auto root = [&](std::uint64_t size) {
    return read(*store, [&](store::Reader& reader) { return root_at(reader, size); });
  };
  const auto verified = [&](const std::string& bytes, const std::string& older) {
    options.older_head = older;
    return verify(bytes);
  };
  const std::string proven = bundle({.promotion = "pr-1", .older_size = 5});
  const std::string plain = joined(lines);
  CHECK(verified(proven, note(5, root(5), origin)).result == BundleResult::ok);
  CHECK(verified(plain, note(16, root(16), origin)).result == BundleResult::ok);
  CHECK(verified(plain, note(0, empty_root(), origin)).result == BundleResult::ok);
  options.trust.keys.push_back({.use = KeyUse::head, .name = "other", .key = key.public_key()});
  const std::tuple<std::string, std::string, BundleResult, const char*> refused[] = {
      {plain, note(5, root(5), origin), BundleResult::incomplete, "no consistency proof from 5 entries"},
      {proven, note(6, root(6), origin), BundleResult::incomplete, "no consistency proof from 6 entries"},
      {proven, note(5, root(6), origin), BundleResult::forked, "fork: the first 5 entries are not those"},
      {plain, note(16, root(6), origin), BundleResult::forked, "fork: the first 16 entries are not those"},
      {plain, note(0, root(6), origin), BundleResult::forked, "fork: the first 0 entries are not those"},
      {plain, note(17, root(6), origin), BundleResult::forked,
       "rollback: the older head has 17 entries, the bundle's 16"},
      {proven, note(5, root(5), "other"), BundleResult::forked, "the older head is of the log other"},
      {proven, note(5, root(5), "unknown"), BundleResult::untrusted,
       "the older head of unknown at 5 entries"},
      {proven, "5 entries\n", BundleResult::tampered, "the older head: not a signed tlog-checkpoint"},
  };
  for (const auto& [bytes, older, result, words] : refused) {
    CAPTURE(words);
    check_report(verified(bytes, older), result, words);
  }
  Lines changed = lines_of(proven);
  REQUIRE(changed[1]["t"] == "consistency");
  changed[1]["proof"][0] = touched(changed[1]["proof"][0]);
  const auto report = verified(sealed(changed), note(5, root(5), origin));
  CHECK(report.result == BundleResult::tampered);
  CHECK(text_of(report).find("the consistency proof from 5 entries does not verify") != std::string::npos);
}

TEST_CASE_FIXTURE(PromotionLog,
                  "with its tables at hand each stage is decided again, and a difference is named") {
  const std::string table =
      write(*store, [](store::Tx& tx) { return store::put_blob(tx, "a table", "text/csv", 1); });
  request();
  for (const std::string& name : kLadder) {
    state("running", name);
    stage(name, "pass", name == "offline-numeric" ? table : "sha256:none");
  }
  state("succeeded", "canary");
  const std::string bytes = bundle({.promotion = "pr-1", .with_tables = true});
  std::vector<std::string> seen;
  schema::Result<std::vector<schema::ClauseVerdict>> answer;
  bool as_recorded = true;
  options.reevaluate = [&](const std::string& document, const StageDecision& decision,
                           const std::string& content) -> schema::Result<std::vector<schema::ClauseVerdict>> {
    CHECK(document == kContract);
    seen.push_back(decision.stage + " " + content);
    if (as_recorded) return decision.clauses;
    if (!answer) return answer;
    auto changed = decision.clauses;
    changed.front().upper = 0.5;
    return changed;
  };
  const auto same = verify(bytes);
  CHECK_MESSAGE(same.result == BundleResult::ok, text_of(same));
  CHECK(seen == std::vector<std::string>{"offline-numeric a table"});
  REQUIRE(same.notes.size() == 4);
  CHECK(same.notes[0].find("offline-numeric (attempt 1): decided again") == 0);
  CHECK(same.notes[1] ==
        "statistical-slice (attempt 1): not decided again, its measurement is not in the bundle");
  as_recorded = false;
  const auto other = verify(bytes);
  CHECK(other.result == BundleResult::underivable);
  CHECK_MESSAGE(text_of(other).find("entry 3: decided again from its measurement table") != std::string::npos,
                text_of(other));
  CHECK(text_of(other).find("1 of 1 verdicts differ, first numerical.kl") != std::string::npos);
  answer = schema::fail(schema::ErrorCode::unsupported, "no such measurement here");
  CHECK(verify(bytes).result == BundleResult::ok);
  answer = schema::fail(schema::ErrorCode::corrupt, "the table is damaged");
  CHECK(text_of(verify(bytes)).find("not derivable: entry 3: the table is damaged") != std::string::npos);
}

TEST_CASE_FIXTURE(PromotionLog, "findings beyond the first twenty are not listed and still count") {
  request();
  state("running", "offline-numeric");
  for (int i = 0; i < 30; ++i) {
    auto body = clause_body("pass");
    body["verdict"] = "violated";
    add(EvidenceKind::verdict_reached, "driftgate", std::move(body), "offline-numeric");
  }
  state("aborted", "offline-numeric", "ada");
  Lines lines = lines_of(bundle());
  const auto underivable = verify(joined(lines));
  CHECK(underivable.result == BundleResult::underivable);
  CHECK(underivable.findings.size() == kMaxFindings);
  lines.back()["digest"] = touched(lines.back()["digest"]);
  const auto tampered = verify(joined(lines));
  CHECK(tampered.findings.size() == kMaxFindings);
  CHECK(tampered.result == BundleResult::tampered);
}
