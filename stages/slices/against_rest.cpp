#include "stages/slices/against_rest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>

#include "stages/clauses/clause_rules.hpp"
#include "stages/report/wording.hpp"
#include "stages/slices/discovered.hpp"
#include "stages/slices/slice_search.hpp"

namespace driftgate::stages {
namespace {

using schema::Aggregate;
using schema::ClauseVerdict;
using schema::SliceRole;
using schema::Verdict;

/// Slices whose sequences are fewer standard errors than this above the rest, by each of the comparisons, are
/// not tested: their p-value is taken as 1.
constexpr double kWorthTesting = 1;
/// The largest ratio that a limit is looked for in.
constexpr double kLargestRatio = 1e6;

/// A clause whose slices are compared.
struct Compared {
  const schema::Clause* clause = nullptr;
  std::vector<ClusterSum> parts;  ///< by sequence
  bool harm_above = true;
  bool has_ratio = true;  ///< the figures are sizes, of which one may be some times another
  Comparisons comparisons{};
};

/// A slice that may drift more than the rest.
struct Candidate {
  std::size_t clause = 0;  ///< index of its Compared
  schema::SliceWhere where;
  std::vector<bool> members;  ///< by sequence
  RestTest test;
  double adjusted = 1;  ///< p-value by Holm over all that were looked at
};

bool is_mean(const schema::MetricSubject& subject) {
  return !subject.aggregate || subject.aggregate == Aggregate::mean ||
         subject.aggregate == Aggregate::sequence_mean;
}

std::vector<ClusterSum> row_parts(const gpu::MeasurementTable& table, const schema::MetricSubject& subject) {
  std::vector<ClusterSum> parts;
  parts.reserve(table.sequences.size());
  for (const gpu::SequenceRow& row : table.sequences) {
    const gpu::Moments& moments = row.metrics[static_cast<std::size_t>(subject.metric)];
    const auto n = static_cast<double>(moments.n);
    const bool once = subject.aggregate == Aggregate::sequence_mean && moments.n > 0;
    parts.push_back(once ? ClusterSum{1, moments.sum / n} : ClusterSum{n, moments.sum});
  }
  return parts;
}

std::optional<Compared> figures_of(const ClauseData& data, const schema::Clause& clause) {
  const gpu::MeasurementTable& table = *data.table;
  if (std::holds_alternative<schema::OutcomeSubject>(clause.subject)) {
    return Compared{&clause, outcome_figures(table, 0).parts, false, false, {}};
  }
  const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
  if (subject == nullptr || clause.limits.max_delta || clause.limits.max_ratio) return std::nullopt;
  // Bounds of two slices do not say which of their figures is the larger.
  if (table.bounded(subject->metric) || !parameter_fault(data, subject->metric).empty()) return std::nullopt;
  const bool above = !clause.limits.min;
  if (is_mean(*subject) && static_cast<std::size_t>(subject->metric) < schema::kRowMetricCount) {
    const bool size = schema::info(subject->metric).low >= 0;
    return Compared{&clause, row_parts(table, *subject), above, above && size, {}};
  }
  const auto limit = metric_limit(clause);
  if (!limit) return std::nullopt;
  auto figures = bounded_figures(table, *subject, *limit, mean_rules(*data.contract, clause));
  if (!figures) return std::nullopt;
  return Compared{
      &clause, std::move(figures->parts), figures->harm_above, figures->harm_above && figures->low >= 0, {}};
}

std::optional<Compared> prepare(const ClauseData& data, const schema::Clause& clause) {
  auto compared = figures_of(data, clause);
  if (!compared || !compared->has_ratio) return compared;
  std::vector<double> figures;
  for (const ClusterSum& part : compared->parts) {
    if (part.n > 0) figures.push_back(part.sum / part.n);
  }
  compared->comparisons = choose_comparisons(figures);
  return compared;
}

/// Each cluster is one unit, of the sequences that it has inside if there are any; those not `open` are left
/// out.
Sides sides_of(const SearchSpace& space, const Compared& compared, const std::vector<bool>& members,
               const std::vector<bool>& open) {
  Sides sides;
  ClusterSum inside;
  ClusterSum outside;
  const auto close = [&] {
    const bool in = inside.n > 0;
    const ClusterSum& unit = in ? inside : outside;
    if (unit.n > 0) {
      const double value = unit.sum / unit.n;
      (in ? sides.inside : sides.outside).push_back(compared.harm_above ? value : -value);
      ClusterSum& all = in ? sides.all_inside : sides.all_outside;
      all.n += unit.n;
      all.sum += unit.sum;
    }
    inside = outside = {};
  };
  std::size_t cluster = SIZE_MAX;
  for (const std::size_t i : space.order()) {
    if (space.cluster(i) != cluster) close();
    cluster = space.cluster(i);
    const ClusterSum& part = compared.parts[i];
    if (part.n <= 0 || !open[i]) continue;
    ClusterSum& into = members[i] ? inside : outside;
    into.n += part.n;
    into.sum += part.sum;
    if (members[i]) ++sides.sequences;
  }
  close();
  return sides;
}

/// Some sequences, and the sum of their mid-ranks among all that are ranked with them.
struct Ranked {
  double count = 0, sum = 0;

  void add(double rank) {
    count += 1;
    sum += rank;
  }
  /// Standard errors that the mean rank lies above the middle of `pool` sequences; 0 if they are all of them.
  [[nodiscard]] double standing(double pool) const {
    if (count == 0 || count >= pool) return 0;
    return (sum / count - (pool + 1) / (2 * pool)) * std::sqrt(12 * count / (1 - count / pool));
  }
};

/// Standard errors that the share of `some` in `count` sequences lies above that of `all` in `pool`.
double standing_of_share(double some, double count, double all, double pool) {
  const double share = all / pool;
  const double variance = share * (1 - share) / count * (1 - count / pool);
  return variance > 0 ? (some / count - share) / std::sqrt(variance) : 0;
}

/// Looks at every slice of one clause.
class Scan {
 public:
  Scan(const SearchSpace& space, const Compared& compared, std::size_t clause)
      : space_(space), compared_(compared), clause_(clause) {
    std::vector<double> values(space.sequences(), std::numeric_limits<double>::quiet_NaN());
    std::vector<double> above_zero = values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ClusterSum& part = compared.parts[i];
      if (part.n <= 0) continue;
      values[i] = (compared.harm_above ? 1 : -1) * part.sum / part.n;
      everything_.add(i);
      if (compared.comparisons.zero_share && values[i] > 0) {
        above_zero[i] = values[i];
        above_zero_count_ += 1;
      }
    }
    ranks_ = mid_ranks(values);
    ranks_above_zero_ = mid_ranks(above_zero);
    seen_.insert(everything_);
  }

  void run(std::uint32_t depth, std::vector<Candidate>& out, std::uint64_t& looked_at) {
    for (const auto& dimensions : space_.combinations(depth)) {
      std::unordered_map<std::uint64_t, Cell> cells;
      for (const std::size_t i : space_.order()) {
        if (compared_.parts[i].n <= 0) continue;
        Cell& cell = cells[space_.key(dimensions, i)];
        cell.members.add(i);
        cell.all.add(ranks_[i]);
        if (!std::isnan(ranks_above_zero_[i])) cell.above_zero.add(ranks_above_zero_[i]);
      }
      std::vector<std::uint64_t> keys;
      for (const auto& [key, cell] : cells) {
        const std::uint64_t count = cell.members.count;
        if (std::min(count, everything_.count - count) >= kLeastCompared) keys.push_back(key);
      }
      std::ranges::sort(keys);
      for (const std::uint64_t key : keys) {
        const Cell& cell = cells.at(key);
        if (!seen_.insert(cell.members).second) continue;
        ++looked_at;
        if (standing(cell) >= kWorthTesting) out.push_back(test(dimensions, key));
      }
    }
  }

 private:
  struct Cell {
    Fingerprint members;
    Ranked all, above_zero;
  };

  /// The largest of all comparisons.
  [[nodiscard]] double standing(const Cell& cell) const {
    const auto pool = static_cast<double>(everything_.count);
    const double by_ranks = cell.all.standing(pool);
    if (above_zero_count_ == 0) return by_ranks;
    return std::max({by_ranks, cell.above_zero.standing(above_zero_count_),
                     standing_of_share(cell.above_zero.count, cell.all.count, above_zero_count_, pool)});
  }

  [[nodiscard]] Candidate test(const std::vector<std::size_t>& dimensions, std::uint64_t key) const {
    Candidate candidate{clause_, space_.where(dimensions, key), std::vector<bool>(space_.sequences()), {}};
    for (std::size_t i = 0; i < space_.sequences(); ++i) {
      candidate.members[i] = space_.key(dimensions, i) == key;
    }
    const std::vector<bool> all(space_.sequences(), true);
    const Sides sides = sides_of(space_, compared_, candidate.members, all);
    candidate.test = compare_sides(sides, compared_.comparisons);
    return candidate;
  }

  const SearchSpace& space_;
  const Compared& compared_;
  std::size_t clause_;
  std::vector<double> ranks_, ranks_above_zero_;
  double above_zero_count_ = 0;
  Fingerprint everything_;
  std::set<Fingerprint> seen_;
};

/// Sorted by p-value; p-values adjusted by Holm within a family of `tests`, most of which were not kept.
void adjust(std::vector<Candidate>& candidates, std::uint64_t tests) {
  std::ranges::stable_sort(candidates, {}, [](const Candidate& one) { return one.test.p_value; });
  double largest = 0;
  for (std::size_t rank = 0; rank < candidates.size(); ++rank) {
    largest = std::max(largest, static_cast<double>(tests - rank) * candidates[rank].test.p_value);
    candidates[rank].adjusted = std::min(1.0, largest);
  }
}

/// The ratio that the slice is over by its ranks at level `alpha` in a family of `tests`; 1 where no larger
/// one is shown.
double least_ratio(const Sides& sides, const Comparisons& comparisons, double alpha, std::uint64_t tests) {
  const auto shown = [&](double ratio) {
    return static_cast<double>(tests) * compare_at_ratio(sides, comparisons, ratio).p_value <= alpha;
  };
  if (shown(kLargestRatio)) return kLargestRatio;
  double low = 0;
  double high = std::log(kLargestRatio);
  constexpr int kHalvings = 24;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (shown(std::exp(middle)) ? low : high) = middle;
  }
  return std::exp(low);
}

struct Judge {
  const ClauseData& data;
  const SearchSpace& space;
  const std::vector<Compared>& compared;
  std::uint64_t tests;

  /// Slices of one clause that drift more than the rest, the clearest first, each still doing so by what the
  /// ones before leave of it.
  [[nodiscard]] std::vector<const Candidate*> name(const std::vector<Candidate>& candidates,
                                                   std::size_t clause) const {
    std::vector<const Candidate*> named;
    std::vector<bool> open(space.sequences(), true);
    for (const Candidate& one : candidates) {
      if (one.clause != clause || one.adjusted > data.alpha || named.size() == kMaxFound) continue;
      const Compared& of = compared[clause];
      const RestTest left =
          named.empty() ? one.test : compare_sides(sides_of(space, of, one.members, open), of.comparisons);
      if (static_cast<double>(tests) * left.p_value > data.alpha) continue;
      named.push_back(&one);
      for (std::size_t i = 0; i < open.size(); ++i) open[i] = open[i] && !one.members[i];
    }
    return named;
  }

  [[nodiscard]] ClauseVerdict verdict_of(const Candidate& one) const {
    const Compared& of = compared[one.clause];
    const std::vector<bool> all(space.sequences(), true);
    const Sides sides = sides_of(space, of, one.members, all);
    ClauseVerdict verdict =
        begin_verdict(*of.clause, one.where, SliceRole::discovered, data.alpha, data.seed);
    verdict.rule = schema::VerdictRule::test;
    verdict.verdict = Verdict::violated;
    const auto max_ratio = data.contract->slices.discover->max_ratio;
    verdict.severity = max_ratio == 1 ? of.clause->severity : schema::Severity::soft;
    verdict.limit_kind = schema::kRatioToRest;
    verdict.threshold = 1;
    verdict.n = sides.sequences;
    verdict.clusters = sides.inside.size();
    verdict.p_value = one.adjusted;
    RestTest decides = one.test;
    if (of.has_ratio) add_ratio(of, sides, verdict, decides);
    verdict.method = method_text(decides.by);
    verdict.details.insert({{"p_proof", 1},
                            {"p_unadjusted", one.test.smallest},
                            {"slices_compared", static_cast<double>(tests)},
                            {"superiority", one.test.ranks.superiority},
                            {"slice_figure", sides.mean_inside()},
                            {"rest_figure", sides.mean_outside()},
                            {"rest_clusters", static_cast<double>(sides.outside.size())}});
    if (of.comparisons.zero_share) add_zeros(of, sides, one.test, verdict);
    say(of, sides, decides.by, verdict);
    return verdict;
  }

  /// `decides`: becomes the test at `max_ratio` where the slice is shown to be over it.
  void add_ratio(const Compared& of, const Sides& sides, ClauseVerdict& verdict, RestTest& decides) const {
    if (sides.mean_outside() > 0) verdict.estimate = sides.mean_inside() / sides.mean_outside();
    // Figures that are above zero more often say nothing of a factor between them.
    const double least = least_ratio(sides, of.comparisons, data.alpha, tests);
    const bool by_factor = !of.comparisons.zero_share || decides.by == RestMethod::ranks_above_zero;
    if (least > 1 || by_factor) verdict.lower = least;
    const auto max_ratio = data.contract->slices.discover->max_ratio;
    if (!max_ratio || sides.mean_inside() <= *max_ratio * sides.mean_outside()) return;
    const RestTest at_ratio = compare_at_ratio(sides, of.comparisons, *max_ratio);
    const double p = static_cast<double>(tests) * at_ratio.p_value;
    if (p > data.alpha) return;
    decides = at_ratio;
    verdict.threshold = max_ratio;
    verdict.p_value = p;
    verdict.severity = of.clause->severity;
  }

  static void add_zeros(const Compared& of, const Sides& sides, const RestTest& test,
                        ClauseVerdict& verdict) {
    verdict.details.insert({{"comparisons", static_cast<double>(of.comparisons.count())},
                            {"slice_above_zero", share_above_zero(sides.inside)},
                            {"rest_above_zero", share_above_zero(sides.outside)},
                            {"p_ranks", test.ranks.p_value},
                            {"p_share_above_zero", test.zero_share_p}});
    if (!of.comparisons.above_zero) return;
    verdict.details["p_ranks_above_zero"] = test.above_zero.p_value;
    verdict.details["superiority_above_zero"] = test.above_zero.superiority;
  }

  void say(const Compared& of, const Sides& sides, RestMethod by, ClauseVerdict& verdict) const {
    verdict.message = fmt::format(
        "Against the rest: {}{} is {} (over {} independent sequences) and {} in the rest of the corpus",
        subject_text(*of.clause), on_slice(verdict.where), figure(sides.mean_inside()),
        count_text(verdict.clusters), figure(sides.mean_outside()));
    if (verdict.estimate) verdict.message += fmt::format(", {} times as much", figure(*verdict.estimate));
    if (verdict.estimate && verdict.lower) {
      verdict.message += fmt::format(" and over {} times with {} confidence", figure(*verdict.lower),
                                     percent(1 - verdict.alpha));
    }
    verdict.message += "; " + reason_text(by, verdict.details);
    verdict.message += fmt::format(
        " (p {} among {} slices compared{}).", figure(*verdict.p_value), count_text(tests),
        of.comparisons.count() > 1 ? fmt::format(", each in {} ways", of.comparisons.count()) : "");
  }

  /// What the deciding comparison saw, in words.
  static std::string reason_text(RestMethod by, const std::map<std::string, double>& details) {
    if (by == RestMethod::ranks) {
      return fmt::format("of pairs of a sequence here and one of the rest, {} have the worse one here",
                         percent(details.at("superiority")));
    }
    const std::string shares =
        fmt::format("{} of the sequences here are above zero and {} of the rest",
                    percent(details.at("slice_above_zero")), percent(details.at("rest_above_zero")));
    if (by == RestMethod::zero_share) return shares;
    return fmt::format(
        "{}, and of pairs of such a sequence here and one of the rest, {} have the worse one here", shares,
        percent(details.at("superiority_above_zero")));
  }
};

void say_consequence(ClauseVerdict& verdict) {
  const double threshold = verdict.threshold.value_or(1);
  if (threshold > 1) {
    verdict.message +=
        fmt::format(" That is beyond the max_ratio of {} that slices.discover allows.", figure(threshold));
  }
  if (verdict.severity == schema::Severity::soft) verdict.message += " It is reported and does not block.";
}

/// The verdict of the clause on the slice by name, where it has one.
ClauseVerdict* critical_verdict(std::vector<ClauseVerdict>& decided, const ClauseVerdict& finding) {
  const auto found = std::ranges::find_if(decided, [&](const ClauseVerdict& verdict) {
    return verdict.role == SliceRole::critical && verdict.clause == finding.clause &&
           verdict.where == finding.where;
  });
  return found == decided.end() ? nullptr : &*found;
}

void annotate(const ClauseVerdict& finding, ClauseVerdict& verdict) {
  if (finding.estimate) verdict.details["ratio_to_rest"] = *finding.estimate;
  verdict.details["rest_p_value"] = *finding.p_value;
  verdict.message += " " + finding.message;
}

}  // namespace

RestComparison compare_with_rest(const ClauseData& data, const std::vector<const schema::Clause*>& clauses,
                                 std::vector<ClauseVerdict>& decided) {
  RestComparison out;
  const schema::Slices& slices = data.contract->slices;
  if (!slices.discover) return out;
  std::vector<Compared> compared;
  for (const schema::Clause* clause : clauses) {
    if (auto one = prepare(data, *clause)) compared.push_back(std::move(*one));
  }
  const SearchSpace space(*data.table, slices.dimensions, data.seed);
  const std::uint64_t visits =
      space.sequences() * space.combinations(slices.discover->depth).size() * compared.size();
  if (visits > kMaxSearchVisits) {
    out.notes.push_back(fmt::format(
        "No slice was compared with the rest of the corpus: {} sequences in {} combinations of dimensions "
        "are more than one search looks at.",
        count_text(space.sequences()), count_text(space.combinations(slices.discover->depth).size())));
    return out;
  }
  std::vector<Candidate> candidates;
  std::uint64_t tests = 0;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    Scan(space, compared[i], i).run(slices.discover->depth, candidates, tests);
  }
  if (tests == 0) return out;
  adjust(candidates, tests);
  const Judge judge{data, space, compared, tests};
  std::size_t found = 0;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    for (const Candidate* one : judge.name(candidates, i)) {
      ClauseVerdict verdict = judge.verdict_of(*one);
      ++found;
      if (ClauseVerdict* by_name = critical_verdict(decided, verdict)) {
        annotate(verdict, *by_name);
      } else {
        say_consequence(verdict);
        out.verdicts.push_back(std::move(verdict));
      }
    }
  }
  out.notes.push_back(
      fmt::format("{} slices of at least {} sequences were compared with the rest of the corpus, over {} "
                  "clauses: {} drift more than the rest.",
                  count_text(tests), kLeastCompared, compared.size(), found));
  return out;
}

}  // namespace driftgate::stages
