#include "tests/daemon/evidence/promotion_log.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence::testing {

using nlohmann::json;
using schema::EntryValue;
using schema::EvidenceKind;
using store::testing::must;

Body clause_body(const std::string& verdict, const std::string& clause) {
  const double lower = verdict == "violated" ? 0.5 : 0;
  const double upper = verdict == "pass" ? 0.005 : 0.75;
  return {{"alpha", EntryValue::measured(0.05)},
          {"approximate", false},
          {"clause", clause},
          {"clusters", 100},
          {"code_version", "0.1"},
          {"details", Body{}},
          {"inputs_digest", "sha256:00"},
          {"limit_kind", "max"},
          {"lower", EntryValue::measured(lower)},
          {"message", "as it is"},
          {"method", "betting"},
          {"n", 400},
          {"no_harm_only", false},
          {"role", "corpus"},
          {"rule", "limits"},
          {"rules", 2},
          {"seed", "7"},
          {"severity", "hard"},
          {"slice", ""},
          {"threshold", EntryValue::measured(0.01)},
          {"upper", EntryValue::measured(upper)},
          {"verdict", verdict},
          {"where", Body{}}};
}

Body stage_body(const std::string& verdict, std::int64_t first, std::int64_t count) {
  return {{"scope", "stage"}, {"verdict", verdict},    {"ended", true},
          {"first", first},   {"count", count},        {"report_digest", "sha256:r"},
          {"rules", 2},       {"code_version", "0.1"}, {"inputs_digest", ""}};
}

PromotionLog::PromotionLog() {
  heads = must(HeadPublisher::start(*store, {}));
  signer.emplace(
      must(AttestationSigner::open((dir.path() / "attestation.key").string(), HeadOptions{}.origin)));
  contract = schema::sha256_digest(kContract);
  store::testing::write(*store, [&](store::Tx& tx) {
    return store::insert_contract(
        tx, {.digest = contract, .name = "c", .canonical = kContract, .registrant = "ada"});
  });
  options.trust = must(load_trust(dir.path()));
  options.trust.keys.push_back(
      {.use = KeyUse::attestation, .name = signer->name(), .key = signer->public_key()});
}

PromotionLog::~PromotionLog() {
  heads->stop();
}

std::int64_t PromotionLog::add(EvidenceKind kind, const std::string& actor, Body body,
                               const std::string& stage, std::int64_t attempt) {
  schema::EntryDraft entry{.time_us = now_us += 10, .kind = kind, .actor = actor};
  entry.subject = {.model = "tiny", .promotion = "pr-1", .checkpoint = "sha256:ab", .contract = contract};
  if (!stage.empty()) {
    entry.subject.stage = stage;
    entry.subject.attempt = attempt;
  }
  entry.body = std::move(body);
  return append_one(*store, entry).seq;
}

void PromotionLog::request(const std::string& requester) {
  add(EvidenceKind::promotion_requested, requester, {{"candidate", "ve-b"}, {"engine", "engine-b"}});
  state_now = "queued";
}

void PromotionLog::state(const std::string& to, const std::string& stage, const std::string& actor) {
  add(EvidenceKind::state_changed, actor,
      {{"from", state_now}, {"to", to}, {"stage", stage}, {"traffic", "never_exposed"}}, stage);
  state_now = to;
}

void PromotionLog::stage(const std::string& name, const std::string& verdict, const std::string& inputs) {
  const auto first = add(EvidenceKind::verdict_reached, "driftgate", clause_body(verdict), name);
  auto decision = stage_body(verdict, first, 1);
  decision["inputs_digest"] = inputs;
  add(EvidenceKind::verdict_reached, "driftgate", std::move(decision), name);
}

void PromotionLog::waive(const std::string& who, const std::string& decision) {
  add(EvidenceKind::waiver_given, who,
      {{"decision", decision},
       {"clause", "numerical.kl"},
       {"evidence_digest", "sha256:r"},
       {"people_rule", 2}});
}

void PromotionLog::succeed() {
  request();
  for (const std::string& name : kLadder) {
    state("running", name);
    stage(name);
  }
  add(EvidenceKind::approval_given, "cleo",
      {{"decision", "approve"}, {"evidence_digest", "sha256:e"}, {"people_rule", 2}}, "canary");
  state("finalizing", "canary");
  state("succeeded", "canary");
}

std::string PromotionLog::bundle(const BundleRequest& request) {
  auto source = must(BundleExport::open(*store, *heads, *signer, request));
  std::string all;
  for (std::string piece = must(source->next()); !piece.empty(); piece = must(source->next())) all += piece;
  return all;
}

BundleReport PromotionLog::verify(const std::string& bytes) const {
  std::istringstream in(bytes);
  return verify_bundle(in, options);
}

void PromotionLog::check_changes(const Lines& lines, const std::vector<Change>& changes,
                                 const std::function<std::string(const Lines&)>& spell) const {
  for (const Change& change : changes) {
    CAPTURE(change.what);
    Lines changed = lines;
    change.make(changed);
    check_report(verify(spell(changed)), change.result, change.words);
  }
}

void check_report(const BundleReport& report, BundleResult result, const std::string& words) {
  CHECK_MESSAGE(report.result == result, text_of(report));
  CHECK_MESSAGE(text_of(report).find(words) != std::string::npos, text_of(report));
}

void erase_line(Lines& lines, std::size_t at) {
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
}

std::string text_of(const BundleReport& report) {
  std::string text;
  for (const auto& finding : report.findings) {
    text += std::string(to_string(finding.result)) + ": " + finding.message + "\n";
  }
  return text;
}

Lines lines_of(const std::string& bundle) {
  Lines lines;
  std::istringstream in(bundle);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const json& line : lines) text += line.dump() + "\n";
  return text;
}

std::string sealed(Lines lines) {
  json end = std::move(lines.back());
  lines.pop_back();
  std::map<std::string, int> counts;
  for (const json& line : lines) ++counts[line["t"]];
  end["entries"] = counts["entry"];
  end["attestations"] = counts["attestation"];
  end["blobs"] = counts["blob"];
  const std::string text = joined(lines);
  end["digest"] = schema::sha256_digest(text);
  return text + end.dump() + "\n";
}

std::size_t first_of(const Lines& lines, const std::string& kind) {
  std::size_t at = 0;
  while (at < lines.size() && lines[at]["t"] != kind) ++at;
  return at;
}

}  // namespace driftgate::evidence::testing
