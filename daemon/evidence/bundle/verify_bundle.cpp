#include "daemon/evidence/bundle/verify_bundle.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/evidence/bundle/bundle_verifier.hpp"
#include "daemon/evidence/bundle/statements.hpp"

namespace driftgate::evidence {

std::string_view to_string(BundleResult result) {
  switch (result) {
    case BundleResult::ok:
      return "ok";
    case BundleResult::tampered:
      return "tampered";
    case BundleResult::forked:
      return "fork or rollback";
    case BundleResult::untrusted:
      return "untrusted key";
    case BundleResult::incomplete:
      return "incomplete";
    case BundleResult::underivable:
      return "not derivable";
  }
  return "unknown";
}

/// The entries and the subtrees beside them make the tree of the head, and reach beyond both ends of the time
/// range.
void BundleVerifier::check_range() {
  if (!has_range_) return report(BundleResult::incomplete, "the range of the entries is missing");
  if (at_ < end_) {
    gap_ = true;
    report(BundleResult::incomplete, "entries {} to {} are missing", at_, end_ - 1);
  }
  if (first_ > 0 && first_us_ && *first_us_ >= from_us_) {
    report(BundleResult::incomplete, "entry {} is in the time range, and those before it are missing",
           first_);
  }
  if (end_ < head_.size && last_us_ && *last_us_ < to_us_) {
    report(BundleResult::incomplete, "entry {} is in the time range, and those after it are missing",
           end_ - 1);
  }
  if (first_ == end_ && head_.size > 0) {
    report(BundleResult::incomplete, "the range has no entry, and the log has some");
  }
  if (gap_) return;
  const auto parts = subtrees_of(end_, head_.size);
  const bool fits = parts.size() == right_.size();
  for (std::size_t i = 0; fits && i < parts.size(); ++i) tree_.push(parts[i].level, right_[i]);
  if (!fits || tree_.root() != head_.root) {
    report(BundleResult::tampered,
           "the entries and the hashes beside them do not make the root of the checkpoint");
  }
}

void BundleVerifier::check_promotion() {
  if (!last_seq_) return report(BundleResult::incomplete, "there is no entry about {}", promotion_);
  report_.verdicts = derivation_->verdicts();
  for (const auto& [digest, bytes] : blobs_) {
    if (!derivation_->named_digests().contains(digest)) {
      report(BundleResult::incomplete, "blob {} is named by no entry that is here", digest);
    }
  }
  check_ended();
  check_attestations();
  reevaluate();
}

/// The end of a promotion is an entry of the chain: a bundle without it may have lost what came after.
void BundleVerifier::check_ended() {
  if (derivation_->has_ended()) return;
  std::string state = derivation_->state();
  if (options_.running) {
    return report_.notes.push_back(fmt::format("the promotion had not ended: it was {}", state));
  }
  report(BundleResult::incomplete,
         "the promotion has not ended in this bundle: it is {}. If it was still running when the bundle was "
         "made, verify with --running; else its last entries are missing",
         state.empty() ? "without a state" : state);
}

void BundleVerifier::check_attestations() {
  // Without the request there is no subject to make statements about, and that it is missing was found.
  const auto expected =
      derivation_->whole() ? statements_of(*derivation_, head_.origin) : std::vector<std::string>();
  if (payloads_.size() < expected.size()) {
    return report(BundleResult::incomplete, "the bundle has {} of {} attestations", payloads_.size(),
                  expected.size());
  }
  for (std::size_t i = 0; i < payloads_.size(); ++i) {
    if (i < expected.size() && payloads_[i] == expected[i]) continue;
    const bool moved = std::ranges::find(expected, payloads_[i]) != expected.end();
    return report(moved ? BundleResult::tampered : BundleResult::underivable,
                  moved
                      ? fmt::format("attestation {} stands in another's place", i + 1)
                      : fmt::format("attestation {}: its statement does not follow from the entries", i + 1));
  }
}

namespace {

/// The verdict and its numbers, without the sentences in which they are told.
std::string figures_of(schema::ClauseVerdict verdict) {
  verdict.message.clear();
  return schema::to_json(verdict);
}

/// The clauses whose verdicts are not the recorded ones.
std::vector<std::string> differing_clauses(const std::vector<schema::ClauseVerdict>& again,
                                           const std::vector<schema::ClauseVerdict>& recorded) {
  std::vector<std::string> differing;
  for (std::size_t i = 0; i < std::max(again.size(), recorded.size()); ++i) {
    const bool same =
        i < again.size() && i < recorded.size() && figures_of(again[i]) == figures_of(recorded[i]);
    if (!same) differing.push_back(i < recorded.size() ? recorded[i].clause : again[i].clause);
  }
  return differing;
}

}  // namespace

/// With the measurement tables at hand, fixed-data stages are decided once more from them.
void BundleVerifier::reevaluate() {
  const auto contract = blobs_.find(derivation_->subject().contract.value_or(""));
  if (!options_.reevaluate || contract == blobs_.end() || blobs_.size() < 2) return;
  for (const StageDecision& decision : derivation_->decisions()) {
    const auto table = blobs_.find(decision.inputs_digest);
    const std::string which = fmt::format("{} (attempt {})", decision.stage, decision.attempt);
    if (table == blobs_.end()) {
      report_.notes.push_back(which + ": not decided again, its measurement is not in the bundle");
      continue;
    }
    const auto again = options_.reevaluate(contract->second, decision, table->second);
    if (!again) {
      const bool cannot = again.error().code == schema::ErrorCode::unsupported;
      if (!cannot) report(BundleResult::underivable, "entry {}: {}", decision.seq, again.error().describe());
      report_.notes.push_back(fmt::format("{}: not decided again, {}", which, again.error().message));
      continue;
    }
    const auto differing = differing_clauses(*again, decision.clauses);
    if (differing.empty()) {
      report_.notes.push_back(
          fmt::format("{}: decided again from its measurement table by version {} of the rules, with the "
                      "same verdicts and "
                      "numbers",
                      which, decision.rules));
    } else {
      report(BundleResult::underivable,
             "entry {}: decided again from its measurement table by version {} of the rules (made by version "
             "{}), {} of {} verdicts differ, first {}",
             decision.seq, decision.rules, decision.code_version, differing.size(), decision.clauses.size(),
             differing.front());
    }
  }
}

BundleReport BundleVerifier::finish() {
  if (place_ == Place::start) {
    if (report_.findings.empty()) report(BundleResult::incomplete, "the bundle is empty");
  } else if (!seen_.at(static_cast<std::size_t>(BundleResult::tampered)) || place_ == Place::end) {
    if (place_ != Place::end) report(BundleResult::incomplete, "the bundle has no end: it was cut off");
    check_older_head();
    of_promotion() ? check_promotion() : check_range();
    check_retired_keys();
  }
  for (const auto result : {BundleResult::tampered, BundleResult::untrusted, BundleResult::forked,
                            BundleResult::incomplete, BundleResult::underivable}) {
    if (!seen_.at(static_cast<std::size_t>(result))) continue;
    report_.result = result;
    break;
  }
  return std::move(report_);
}

BundleReport verify_bundle(std::istream& in, const VerifyOptions& options) {
  BundleVerifier verifier(options);
  std::string line;
  for (bool more = true; more;) {
    switch (read_line(in, line)) {
      case LineEnd::whole:
        more = verifier.take(line);
        break;
      case LineEnd::cut:
        verifier.report(BundleResult::incomplete, "the last line is cut off");
        more = false;
        break;
      case LineEnd::too_long:
        verifier.report(BundleResult::tampered, "the bundle has a line of more than 48 MiB");
        more = false;
        break;
      case LineEnd::none:
        more = false;
        break;
    }
  }
  return verifier.finish();
}

}  // namespace driftgate::evidence
