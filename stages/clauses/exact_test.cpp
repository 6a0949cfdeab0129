#include "stages/clauses/exact_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "gpu/compare_bits.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

/// Independent units that have rows.
std::uint64_t units_of(const gpu::MeasurementTable& table) {
  const std::vector<std::size_t> clusters = cluster_numbers(table, select_sequences(table, {}));
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    if (table.sequences[i].rows > 0) seen.insert(clusters[i]);
  }
  return seen.size();
}

}  // namespace

std::vector<std::string> required_bits(const schema::Contract& contract) {
  std::vector<std::string> wanted;
  for (const schema::Clause& clause : contract.clauses) {
    const auto* subject = std::get_if<schema::ExactSubject>(&clause.subject);
    if (subject == nullptr) continue;
    const std::string name(schema::to_string(subject->tensor));
    if (std::ranges::find(wanted, name) == wanted.end()) wanted.push_back(name);
  }
  return wanted;
}

ClauseVerdict decide_exact(const ClauseData& data, const schema::ExactSubject& subject,
                           std::uint64_t least_units, ClauseVerdict verdict) {
  const std::string what(schema::to_string(subject.tensor));
  const auto& findings = data.table->partial.findings;
  verdict.method = "census of bit patterns";
  verdict.limit_kind = "equal";
  verdict.threshold = 0;
  const auto bits = std::ranges::find(findings, gpu::bits_finding(what), &gpu::CaptureFinding::name);
  if (bits == findings.end()) {
    return error_verdict(std::move(verdict),
                         fmt::format("The measurement did not compare the bits of the {}: measure "
                                     "again with this contract.",
                                     what));
  }
  if (bits->of == 0) return error_verdict(std::move(verdict), "Not decided: " + bits->text + ".");
  verdict.rule = schema::VerdictRule::census;
  verdict.n = bits->of;
  verdict.clusters = units_of(*data.table);
  verdict.estimate = static_cast<double>(bits->count);
  verdict.p_value = bits->count == 0 ? 1 : 0;
  verdict.details["least_units"] = static_cast<double>(least_units);
  std::string found = bits->text;
  found.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(found.front())));
  if (bits->count > 0) {
    verdict.verdict = Verdict::violated;
    verdict.message = found + ". One such row is enough.";
    return verdict;
  }
  const double bound = zero_event_bound(verdict.clusters, verdict.alpha);
  verdict.details["rate_bound"] = bound;
  const std::string start =
      fmt::format("{} of {} independent sequences", found, count_text(verdict.clusters));
  if (verdict.clusters < least_units) {
    const std::uint64_t missing = least_units - verdict.clusters;
    verdict.details["missing_sequences"] = static_cast<double>(missing);
    verdict.message = fmt::format("{}, but {} sequences are required: {} are missing.", start,
                                  count_text(least_units), count_text(missing));
    return verdict;
  }
  verdict.verdict = Verdict::pass;
  verdict.message = fmt::format("{}; with {} confidence under {} of all sequences have a row that differs.",
                                start, percent(1 - verdict.alpha), percent(bound));
  return verdict;
}

}  // namespace driftgate::stages
