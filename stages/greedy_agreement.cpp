#include "stages/greedy_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>

#include "stages/clauses/clause_rules.hpp"
#include "stages/clauses/floor.hpp"
#include "stages/report/wording.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Metric;
using schema::Verdict;

using Pairs = std::vector<const ShadowPair*>;
/// The agreement of the two kernels, or of the candidate with itself.
using Side = std::optional<GreedyAgreement> ShadowPair::*;

/// What a clause asks of its prompts: that the mean of their losses is at most `tau`. The loss of a metric
/// that is limited from below is what it falls short of the end of its range, so that betting begins with the
/// whole stake where no prompt has a loss.
struct Question {
  Metric metric;
  bool quantile;  ///< a prompt loses 1 if its figure is under `limit`
  bool short_of;  ///< a prompt loses what its figure falls short of `high`
  double limit;   ///< `max` or `min`
  double high;    ///< the end of the metric's range
  double tau;

  [[nodiscard]] double loss(const GreedyAgreement& agreement) const {
    const double value = greedy_figure(metric, agreement);
    if (quantile) return value < limit ? 1 : 0;
    return short_of ? high - value : value;
  }
  /// The metric whose mean loss is this, or for a quantile the share itself; and back.
  [[nodiscard]] double figure_of(double mean_loss) const { return short_of ? high - mean_loss : mean_loss; }
};

std::optional<Question> question_of(const schema::Clause& clause) {
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  const double high = schema::info(subject.metric).high;
  if (subject.metric == Metric::divergence_rate) {
    if (!clause.limits.max) return std::nullopt;
    return Question{subject.metric, false, false, *clause.limits.max, high, *clause.limits.max};
  }
  if (!clause.limits.min) return std::nullopt;
  const double min = *clause.limits.min;
  const auto q = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  if (q) return Question{subject.metric, true, false, min, high, *q};
  return Question{subject.metric, false, true, min, high, high - min};
}

/// The losses of each sticky key with a prompt that was compared.
std::vector<ClusterSum> by_key(const Pairs& pairs, Side side, const Question& question) {
  std::vector<ClusterSum> keys;
  std::unordered_map<std::uint64_t, std::size_t> places;
  for (const ShadowPair* pair : pairs) {
    const std::optional<GreedyAgreement>& agreement = pair->*side;
    if (!agreement) continue;
    const auto place = places.try_emplace(pair->key_hash, keys.size());
    if (place.second) keys.push_back({});
    ClusterSum& key = keys[place.first->second];
    key.n += 1;
    key.sum += question.loss(*agreement);
  }
  return keys;
}

MeanTest test_keys(std::vector<ClusterSum> keys, const Question& question, double tau, double alpha,
                   std::uint64_t seed) {
  if (!question.short_of) return exceedance(keys, tau, alpha, seed);
  double prompts = 0;
  for (const ClusterSum& key : keys) prompts += key.n;
  count_once(keys);
  MeanTest test = betting_mean(keys, tau, ValueRange{0, question.high, 1}, alpha, seed);
  test.n = static_cast<std::uint64_t>(prompts);
  return test;
}

/// The limit of a clause with floor_multiple, from how often the candidate differs from itself.
FloorLimit raised_limit(const schema::Limits& limits, const std::vector<ClusterSum>& floor, double alpha,
                        std::uint64_t seed) {
  FloorLimit limit;
  limit.max = limits.max.value_or(0);
  limit.multiple = limits.floor_multiple.value_or(1);
  limit.cap = limits.floor_cap.value_or(limit.max);
  limit.alpha = limit.floor_alpha = alpha / 2;
  const MeanTest test = exceedance(floor, limit.max / limit.multiple, limit.floor_alpha, seed);
  FloorFigure figure;
  figure.side = FloorSide::inf;
  figure.estimate = test.estimate;
  figure.lower = std::max(0.0, test.lower.value_or(0));
  figure.method = test.method;
  figure.undecidable = test.undecidable;
  limit.limit = std::clamp(limit.multiple * figure.lower, limit.max, limit.cap);
  limit.floors.push_back(std::move(figure));
  return limit;
}

std::string left_out_text(std::uint64_t left_out) {
  if (left_out == 0) return {};
  return fmt::format(
      " {} more were left out, since an engine lists fewer tokens of its answer than it generated.",
      count_text(left_out));
}

/// The figures in words, without what is made of them.
std::string figures_text(const Question& question, const ClauseVerdict& verdict) {
  const double low = verdict.lower.value_or(0), estimate = verdict.estimate.value_or(0);
  const std::string prompts = fmt::format("{} prompts{}", count_text(verdict.n), on_slice(verdict.where));
  const auto share = [&](const std::string& what) {
    return fmt::format("{} of {} {} (between {} and {})", percent(estimate), prompts, what, percent(low),
                       percent(verdict.upper.value_or(1)));
  };
  if (question.quantile)
    return share(fmt::format("have greedy answers of the two kernels that differ within the first {} tokens",
                             figure(question.limit)));
  if (question.metric == Metric::divergence_rate)
    return share(fmt::format("have greedy answers of the two kernels that differ within {} tokens",
                             schema::kGreedyTokens));
  if (question.metric == Metric::prefix_agreement)
    return fmt::format(
        "of the greedy answers of the two kernels to {}, {} come before the first difference (between {} and "
        "{})",
        prompts, percent(estimate), percent(low), percent(verdict.upper.value_or(1)));
  return fmt::format(
      "the greedy answers of the two kernels to {} first differ after {} tokens in the mean, counted as {} "
      "where they do not (between {} and {})",
      prompts, figure(estimate), schema::kGreedyTokens, figure(low),
      figure(verdict.upper.value_or(schema::kGreedyTokens)));
}

std::string limit_text(const Question& question, const ClauseVerdict& verdict) {
  const bool share = question.metric != Metric::first_divergence;
  const double value = verdict.threshold.value_or(0);
  const std::string limit =
      fmt::format("the {} of {}", verdict.limit_kind, share ? percent(value) : figure(value));
  if (!question.quantile) return limit;
  return fmt::format("{}, which tolerates {}", limit, percent(question.tau));
}

void apply(const MeanTest& test, const Question& question, ClauseVerdict& verdict) {
  verdict.n = test.n;
  verdict.clusters = test.clusters;
  verdict.estimate = question.figure_of(test.estimate);
  const auto &under = question.short_of ? test.upper : test.lower,
             &over = question.short_of ? test.lower : test.upper;
  if (under) verdict.lower = question.figure_of(*under);
  if (over) verdict.upper = question.figure_of(*over);
  verdict.method = test.method;
  for (const auto& [name, value] : test.details) verdict.details[name] = value;
  verdict.rule = schema::VerdictRule::test;
  verdict.p_value = test.p_high;
  verdict.details["p_proof"] = test.p_low;
  const std::string start = figures_text(question, verdict), limit = limit_text(question, verdict);
  if (test.p_low <= verdict.alpha) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: within {}.", start, limit);
  } else if (test.p_high <= verdict.alpha) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: beyond {}.", start, limit);
  } else {
    verdict.verdict = Verdict::inconclusive;
    verdict.message = fmt::format("{}: too few prompts to decide against {}.", start, limit);
  }
}

/// What the candidate's answers differ by without another kernel, beside a clause that does not rest on it.
void note_own_noise(const std::vector<ClusterSum>& floor, const Question& question, ClauseVerdict& verdict) {
  if (floor.empty()) return;
  std::vector<ClusterSum> once = floor;
  count_once(once);
  const double noise = question.figure_of(ratio_mean(once));
  verdict.details["floor_inf"] = noise;
  const bool share = question.quantile || question.metric != Metric::first_divergence;
  verdict.message += fmt::format(" Of the candidate alone and in a batch, without another kernel, it is {}.",
                                 share ? percent(noise) : figure(noise));
}

}  // namespace

double greedy_figure(Metric metric, const GreedyAgreement& agreement) {
  const bool differ = agreement.equal < agreement.longest;
  switch (metric) {
    case Metric::prefix_agreement:
      return differ ? static_cast<double>(agreement.equal) / agreement.longest : 1.0;
    case Metric::first_divergence:
      return differ ? agreement.equal : schema::kGreedyTokens;
    case Metric::divergence_rate:
      return differ ? 1.0 : 0.0;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

ClauseVerdict decide_greedy(const schema::Clause& clause, const Pairs& pairs, double alpha,
                            std::uint64_t seed, ClauseVerdict verdict) {
  const auto question = question_of(clause);
  const std::string name = subject_text(clause);
  if (!question) return error_verdict(std::move(verdict), name + " has no limit that it is decided by.");
  verdict.threshold = question->limit;
  verdict.limit_kind = clause.limits.max ? "max" : "min";
  const auto left_out =
      static_cast<std::uint64_t>(std::ranges::count_if(pairs, &ShadowPair::unlisted_tokens));
  const auto keys = by_key(pairs, &ShadowPair::greedy, *question);
  if (keys.empty()) {
    return error_verdict(
        verdict,
        fmt::format("No mirrored request{} was answered greedily by both engines with all tokens of both "
                    "answers listed, so where they first differ is not known: {} needs engines that give "
                    "log-probabilities of the tokens that they generate.{}",
                    on_slice(verdict.where), name, left_out_text(left_out)));
  }
  const auto floor = by_key(pairs, &ShadowPair::greedy_floor, *question);
  verdict.details["left_out"] = static_cast<double>(left_out);
  double tau = question->tau;
  std::optional<FloorLimit> raised;
  if (clause.limits.floor_multiple) {
    if (floor.empty()) {
      return error_verdict(verdict,
                           fmt::format("Not decided: {} has a floor_multiple, and the candidate answered no "
                                       "prompt{} both alone and in a batch with all tokens listed.{}",
                                       clause.address(), on_slice(verdict.where), left_out_text(left_out)));
    }
    raised = raised_limit(clause.limits, floor, alpha, seed);
    tau = raised->limit;
    verdict.threshold = raised->limit;
    verdict.alpha = raised->alpha;
  }
  apply(test_keys(keys, *question, tau, verdict.alpha, seed), *question, verdict);
  verdict.message += left_out_text(left_out);
  if (raised) {
    note_floor(*raised, verdict);
  } else {
    note_own_noise(floor, *question, verdict);
  }
  allow_no_harm(clause, verdict);
  return verdict;
}

}  // namespace driftgate::stages
