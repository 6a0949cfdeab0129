#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schema/contract/contract_means.hpp"
#include "schema/contract/contract_parse.hpp"
#include "schema/contract/least_n.hpp"

namespace driftgate::schema::detail {
namespace {

/// `min_sequences` above this multiple of what the clauses need hides slices that could be decided.
constexpr double kNeedlessly = 1.5;
/// The share that a hidden slice is told of.
constexpr double kSmallSlice = 0.05;

std::optional<std::uint64_t> need_on_slices(const Clause& clause, const Contract& contract) {
  for (const LeastN& need : least_n(clause, contract))
    if (need.stage == Stage::statistical_slice) return need.n;
  return std::nullopt;
}

/// A critical slice that is tested and cannot pass blocks without saying how much is missing.
void warn_short(const Clause& clause, const Contract& contract, std::vector<Fault>& warnings) {
  const bool critical = std::ranges::find(clause.slices, SliceRole::critical) != clause.slices.end();
  const auto need = need_on_slices(clause, contract);
  const std::uint32_t least = min_sequences_of(clause, contract);
  if (!critical || !need || *need <= least) return;
  warnings.push_back(
      {clause.position, "",
       fmt::format("{} needs at least {} sequences of a critical slice in a first run, and min_sequences is "
                   "{}: a slice "
                   "between the two is tested and cannot pass; write min_sequences: {} on the clause",
                   clause.address(), *need, least, *need)});
}

std::string hidden_text(const std::string& what, std::uint32_t least, std::uint64_t need,
                        const Contract& contract) {
  const double corpus = std::ceil(least / kSmallSlice);
  const std::string searched =
      contract.slices.discover ? fmt::format(" (where discovery searches halves: {:.0f})", 2 * corpus) : "";
  return fmt::format(
      "with min_sequences: {} a slice that is {:g}% of the corpus is never looked at unless the corpus has "
      "{:.0f} sequences{}, though {} can be decided from {} on; write min_sequences: {}",
      least, 100 * kSmallSlice, corpus, searched, what, need, need);
}

bool needlessly(std::uint32_t least, std::uint64_t need) {
  return least > kNeedlessly * static_cast<double>(need);
}

/// The clauses without a `min_sequences` of their own share that of the contract.
void warn_hidden(const Contract& contract, std::vector<Fault>& warnings) {
  std::uint64_t shared = 0;
  for (const Clause& clause : contract.clauses) {
    if (clause.slices.empty()) continue;
    auto need = need_on_slices(clause, contract);
    if (!need) continue;
    if (const Clause* beside = quantile_beside(clause, contract))
      need = std::max(need, need_on_slices(*beside, contract));
    if (!clause.min_sequences) {
      shared = std::max(shared, *need);
    } else if (needlessly(*clause.min_sequences, *need)) {
      warnings.push_back(
          {clause.position, "", hidden_text(clause.address(), *clause.min_sequences, *need, contract)});
    }
  }
  if (shared > 0 && needlessly(contract.slices.min_sequences, shared)) {
    warnings.push_back({{},
                        "",
                        "slices: " + hidden_text("every clause on slices", contract.slices.min_sequences,
                                                 shared, contract)});
  }
}

}  // namespace

void warn_sizes(const Contract& contract, std::vector<Fault>& warnings) {
  for (const Clause& clause : contract.clauses) warn_short(clause, contract, warnings);
  warn_hidden(contract, warnings);
}

}  // namespace driftgate::schema::detail
