#include "stages/slices/discovered.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schema/contract/least_n.hpp"
#include "stages/clauses/clause_rules.hpp"
#include "stages/report/wording.hpp"
#include "stages/slices/slice_search.hpp"
#include "stages/statistics/multiple.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::SliceRole;
using schema::Verdict;

/// The seed of the halves, apart from those of orders and resamplings.
constexpr std::uint64_t kHalvesSalt = 0x68616c766573ULL;

/// A clause that is searched, with the figure that it limits.
struct Searched {
  const schema::Clause* clause = nullptr;
  BoundedFigures figures;
  double threshold = 0;
  std::string limit_kind;
};

std::optional<Searched> prepare(const ClauseData& data, const schema::Clause& clause) {
  if (!schema::discovery_searches(clause)) return std::nullopt;
  if (std::holds_alternative<schema::OutcomeSubject>(clause.subject)) {
    const double margin = clause.limits.non_inferiority_margin.value_or(0);
    return Searched{&clause, outcome_figures(*data.table, margin), margin, "non_inferiority_margin"};
  }
  const auto limit = metric_limit(clause);
  if (!limit) return std::nullopt;
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  auto figures = bounded_figures(*data.table, subject, *limit, mean_rules(*data.contract, clause));
  // The clause itself is an error that says why.
  if (!figures || !parameter_fault(data, subject.metric).empty()) return std::nullopt;
  return Searched{&clause, std::move(*figures), limit->value, limit->is_max ? "max" : "min"};
}

/// Slices that the clause decides by name.
std::vector<schema::SliceWhere> decided_by(const schema::Clause& clause, const schema::Slices& slices,
                                           const std::vector<schema::SliceWhere>& monitored) {
  std::vector<schema::SliceWhere> decided;
  const auto asks = [&](SliceRole role) {
    return std::ranges::find(clause.slices, role) != clause.slices.end();
  };
  if (asks(SliceRole::critical)) decided = slices.critical;
  if (asks(SliceRole::monitored)) decided.insert(decided.end(), monitored.begin(), monitored.end());
  return decided;
}

ClauseVerdict begin(const ClauseData& data, const Searched& searched, const schema::SliceWhere& where) {
  ClauseVerdict verdict =
      begin_verdict(*searched.clause, where, SliceRole::discovered, data.alpha, data.seed);
  const auto severity =
      schema::find_rules(verdict.rules)
          ->severity(verdict, searched.clause->severity, discovery_terms(data.contract->slices));
  verdict.severity = severity.value_or(searched.clause->severity);
  verdict.threshold = searched.threshold;
  verdict.limit_kind = searched.limit_kind;
  const auto* metric = std::get_if<schema::MetricSubject>(&searched.clause->subject);
  if (metric != nullptr && metric->aggregate && schema::quantile_of(*metric->aggregate)) {
    verdict.details["tolerated_fraction"] = searched.figures.tau;
  }
  return verdict;
}

/// "the share of rows in an average sequence with kl_inf_train beyond 0.1" and the like.
std::string figure_name(const ClauseVerdict& verdict, const Searched& searched) {
  std::string subject = subject_text(*searched.clause);
  if (verdict.details.contains("tolerated_fraction")) {
    return fmt::format("the share of {} {} beyond {} (clause: {})", share_of(searched.clause->over),
                       schema::to_string(std::get<schema::MetricSubject>(searched.clause->subject).metric),
                       figure(searched.threshold), subject);
  }
  if (verdict.limit_kind == "non_inferiority_margin") return "the difference in " + subject;
  return subject;
}

double logits_not_finite(const gpu::MeasurementTable& table, const Selection& selection) {
  double count = 0;
  for (const std::size_t i : selection) {
    count += table.sequences[i].metrics[static_cast<std::size_t>(schema::Metric::nonfinite)].sum;
  }
  return count;
}

/// The figures of a slice on the half that was not searched; the e-value is judged later, among all.
ClauseVerdict measure(const ClauseData& data, const SearchSpace& space, const Searched& searched,
                      const SearchResult& result, const FoundSlice& slice) {
  const BoundedFigures& figures = searched.figures;
  ClauseVerdict verdict = begin(data, searched, slice.where);
  Selection tested = select_sequences(*data.table, slice.where);
  std::erase_if(tested, [&](std::size_t i) { return space.in_search_half(i); });
  std::vector<ClusterSum> clusters;
  const std::vector<std::size_t> numbers = cluster_numbers(*data.table, tested);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    if (numbers[i] >= clusters.size()) clusters.resize(numbers[i] + 1);
    clusters[numbers[i]].n += figures.parts[tested[i]].n;
    clusters[numbers[i]].sum += figures.parts[tested[i]].sum;
  }
  std::erase_if(clusters, [](const ClusterSum& c) { return c.n <= 0; });
  double units = 0;
  for (const ClusterSum& c : clusters) units += c.n;
  if (figures.once) count_once(clusters);
  const ValueRange range{figures.low, figures.high, figures.most};
  const MeanTest test = betting_mean(clusters, figures.tau, range, data.alpha, data.seed);
  verdict.method = "betting on the half that was not searched, e-BH";
  verdict.n = static_cast<std::uint64_t>(units);
  verdict.clusters = test.clusters;
  verdict.details["search_estimate"] = slice.estimate;
  verdict.details["slices_searched"] = static_cast<double>(result.looked_at);
  verdict.details["sequences"] = static_cast<double>(slice.in_search + slice.in_test);
  if (!test.undecidable.empty()) {
    verdict.message = fmt::format("The search found {}, of whose other half nothing is known: {}.",
                                  schema::slice_text(slice.where), test.undecidable);
    return verdict;
  }
  verdict.estimate = test.estimate;
  verdict.lower = test.lower;
  verdict.upper = test.upper;
  verdict.rule = schema::VerdictRule::e_value;
  verdict.e_value = betting_e_value(clusters, figures.tau, range, figures.harm_above, data.seed);
  const double proof = figures.harm_above ? test.p_low : test.p_high;
  verdict.details["e_proof"] = figures.harm_only ? 0 : 1 / proof;
  verdict.details["e_proof_needed"] = 1 / data.alpha;
  if (const double count = logits_not_finite(*data.table, tested); count > 0) {
    verdict.rule = schema::VerdictRule::nonfinite;
    verdict.details["nonfinite"] = count;
    verdict.e_value = HUGE_VAL;
  }
  return verdict;
}

/// "the max of 0.02", "the margin of 0.03".
std::string limit_text(const ClauseVerdict& verdict, const Searched& searched) {
  if (verdict.limit_kind == "non_inferiority_margin") return "the margin of " + figure(searched.threshold);
  const char* kind = searched.figures.harm_above ? "the max of " : "the min of ";
  return kind + figure(searched.figures.tau);
}

void say(const Searched& searched, std::size_t family, ClauseVerdict& verdict) {
  const std::string limit = limit_text(verdict, searched);
  const std::string start = fmt::format(
      "Found by the search: {} on {} is {} (between {} and {}; {} rows, {} independent sequences of the half "
      "that was not searched)",
      figure_name(verdict, searched), schema::slice_text(verdict.where), figure(*verdict.estimate),
      figure(*verdict.lower), figure(*verdict.upper), count_text(verdict.n), count_text(verdict.clusters));
  const std::string evidence =
      fmt::format("an e-value of {} against {} needed among {} found", figure(*verdict.e_value),
                  figure(verdict.details.at("e_harm_needed")), family);
  if (verdict.rule == schema::VerdictRule::nonfinite) {
    verdict.message = fmt::format("{}, and {} of its logits are NaN or infinite.", start,
                                  figure(verdict.details.at("nonfinite")));
  } else if (verdict.verdict == Verdict::violated) {
    verdict.message = fmt::format("{}: beyond {}, by {}.", start, limit, evidence);
  } else if (verdict.verdict == Verdict::pass) {
    verdict.message = fmt::format("{}: within {}.", start, limit);
  } else {
    verdict.message =
        fmt::format("{}: neither beyond {} nor within it for certain ({}).", start, limit, evidence);
  }
  if (verdict.verdict == Verdict::violated && verdict.severity == schema::Severity::soft) {
    verdict.message += " It is reported and does not block.";
  }
}

/// e-BH over all that was found: the line that each e-value is held against.
void judge(const std::vector<const Searched*>& searched, double alpha, std::vector<ClauseVerdict>& verdicts) {
  std::vector<double> e_values;
  for (const ClauseVerdict& verdict : verdicts) {
    if (verdict.e_value) e_values.push_back(*verdict.e_value);
  }
  const double line = e_bh_threshold(e_values, alpha);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    ClauseVerdict& verdict = verdicts[i];
    if (!verdict.e_value) continue;
    verdict.details["e_harm_needed"] = line;
    verdict.details["e_bh_tests"] = static_cast<double>(e_values.size());
    if (*verdict.e_value >= line) {
      verdict.verdict = Verdict::violated;
    } else if (verdict.details.at("e_proof") >= verdict.details.at("e_proof_needed")) {
      verdict.verdict = Verdict::pass;
    }
    say(*searched[i], e_values.size(), verdict);
  }
}

ClauseVerdict too_small(const ClauseData& data, const Searched& searched, const FoundSlice& slice) {
  ClauseVerdict verdict = begin(data, searched, slice.where);
  const std::uint64_t least = schema::min_sequences_of(*searched.clause, *data.contract);
  const std::uint64_t total = slice.in_search + slice.in_test;
  const std::uint64_t smaller = std::min(slice.in_search, slice.in_test);
  const std::uint64_t missing =
      std::max(2 * least > total ? 2 * least - total : 0, least > smaller ? least - smaller : 0);
  verdict.method = "none: too few sequences";
  verdict.clusters = total;
  verdict.details["missing_sequences"] = static_cast<double>(missing);
  verdict.message = fmt::format(
      "{} on {} is {}, beyond {}, on {} sequences: too few to search one half and test on the other with "
      "min_sequences {} in each; at least {} are missing.",
      figure_name(verdict, searched), schema::slice_text(slice.where), figure(slice.estimate),
      limit_text(verdict, searched), count_text(total), count_text(least), count_text(missing));
  return verdict;
}

std::string names_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

void note_scope(const std::vector<const schema::Clause*>& clauses, const SearchSpace& space,
                const std::vector<Searched>& searched, std::uint64_t looked_at, const Discovery& found,
                const schema::Slices& slices, std::vector<std::string>& notes) {
  std::vector<std::string> others;
  for (const schema::Clause* clause : clauses) {
    const auto same = [&](const Searched& one) { return one.clause == clause; };
    if (std::ranges::none_of(searched, same)) others.push_back(clause->address());
  }
  if (!others.empty()) {
    notes.push_back(fmt::format(
        "Not searched for slices: {} (only bounded means, quantiles and outcomes are).", names_of(others)));
  }
  if (!space.left_out().empty()) {
    notes.push_back(
        fmt::format("Dimensions that were not searched, since no sequence has them or they have over "
                    "{} values: {}.",
                    count_text(kMaxSearchedValues), names_of(space.left_out())));
  }
  if (searched.empty()) return;
  const auto harmful = std::ranges::count(found.verdicts, Verdict::violated, &ClauseVerdict::verdict);
  notes.push_back(fmt::format(
      "Discovery looked at {} slices of at least {} sequences in each half, over {} clauses: {} beyond their "
      "limit{}.",
      count_text(looked_at), count_text(slices.min_sequences), searched.size(), harmful,
      harmful > 0 && !slices.discover->block ? ", reported and not blocking" : ""));
}

}  // namespace

std::optional<schema::DiscoveryTerms> discovery_terms(const schema::Slices& slices) {
  if (!slices.discover) return std::nullopt;
  return schema::DiscoveryTerms{slices.discover->block, slices.discover->max_ratio};
}

BoundedFigures outcome_figures(const gpu::MeasurementTable& table, double margin) {
  BoundedFigures out{.parts = {}, .low = -1, .high = 1, .tau = -margin, .harm_above = false};
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    ClusterSum part;
    if (i < table.infos.size() && table.infos[i].correct_train && table.infos[i].correct_inf) {
      part = {1, static_cast<double>(*table.infos[i].correct_inf) -
                     static_cast<double>(*table.infos[i].correct_train)};
    }
    out.parts.push_back(part);
  }
  return out;
}

Discovery discover_slices(const ClauseData& data, const std::vector<const schema::Clause*>& clauses,
                          const std::vector<schema::SliceWhere>& monitored) {
  Discovery discovery;
  const schema::Slices& slices = data.contract->slices;
  if (!slices.discover) return discovery;
  std::vector<Searched> searched;
  for (const schema::Clause* clause : clauses) {
    if (auto one = prepare(data, *clause)) searched.push_back(std::move(*one));
  }
  const SearchSpace space(*data.table, slices.dimensions, mix64(data.seed ^ kHalvesSalt));
  const std::uint64_t a_pass = space.sequences() * space.combinations(slices.discover->depth).size();
  const std::uint64_t passes = a_pass == 0 ? kMaxFound : kMaxSearchVisits / a_pass;
  const std::size_t rounds =
      std::min<std::size_t>(kMaxFound, passes / std::max<std::size_t>(1, searched.size()));
  std::vector<const Searched*> owners;
  std::vector<ClauseVerdict> tested;
  std::vector<ClauseVerdict> small;
  std::uint64_t looked_at = 0;
  for (const Searched& one : searched) {
    if (rounds == 0) {
      small.push_back(error_verdict(
          begin(data, one, {}),
          fmt::format("{} sequences in {} combinations of dimensions are more than one search looks at: "
                      "lower slices.discover.depth or declare fewer dimensions.",
                      count_text(space.sequences()),
                      count_text(space.combinations(slices.discover->depth).size()))));
      continue;
    }
    const SearchRequest request{&one.figures, slices.discover->depth,
                                schema::min_sequences_of(*one.clause, *data.contract),
                                decided_by(*one.clause, slices, monitored), rounds};
    const SearchResult result = search_slices(*data.table, space, request);
    looked_at = std::max(looked_at, result.looked_at);
    for (const FoundSlice& slice : result.found) {
      tested.push_back(measure(data, space, one, result, slice));
      owners.push_back(&one);
    }
    if (result.too_small) small.push_back(too_small(data, one, *result.too_small));
  }
  judge(owners, data.alpha, tested);
  discovery.verdicts = std::move(tested);
  std::ranges::move(small, std::back_inserter(discovery.verdicts));
  note_scope(clauses, space, searched, looked_at, discovery, slices, discovery.notes);
  return discovery;
}

}  // namespace driftgate::stages
