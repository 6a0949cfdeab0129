#include "gpu/partial/partial_row.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/partial/listed_masses.hpp"
#include "gpu/partial/partial_top.hpp"

namespace driftgate::gpu {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Interval& at(PartialRow& row, Metric metric) {
  return row.bounds[static_cast<std::size_t>(metric)];
}

/// Of sums of masses in double, over the longest list.
constexpr double kSumError = 1e-12;

Interval left_over(const Interval& named) {
  return {std::max(0.0, 1 - named.upper - kSumError), std::clamp(1 - named.lower + kSumError, 0.0, 1.0)};
}

void grow(Interval& sum, const Interval& part) {
  sum.lower += part.lower;
  sum.upper += part.upper;
}

/// The tokens of one kernel by id, including the target token where its log-probability is known.
struct Named {
  std::vector<ListedToken> tokens;  ///< by id
  ListedMasses listed;              ///< of `tokens`
  double cap = 1;                   ///< upper bound of the probability of any other token
  Interval unnamed{0, 1};           ///< mass of all other tokens
};

Named name_tokens(const PartialInput& input, const PartialSide& side) {
  Named out;
  out.tokens.assign(side.list.begin(), side.list.end());
  std::ranges::sort(out.tokens, {}, &ListedToken::id);
  if (input.mode == CaptureMode::topk && !side.list.empty()) {
    out.cap = least_listed(input, side);
  }
  if (input.token && side.target_logprob) {
    const auto place = std::ranges::lower_bound(out.tokens, *input.token, {}, &ListedToken::id);
    if (place == out.tokens.end() || place->id != *input.token) {
      out.tokens.insert(place, {*input.token, static_cast<float>(*side.target_logprob)});
    }
  }
  out.listed = listed_masses(out.tokens, side.error, input.vocabulary);
  Interval named;
  for (const Interval& mass : out.listed.masses) grow(named, mass);
  const bool all = input.vocabulary > 0 && out.tokens.size() == input.vocabulary;
  out.unnamed = all ? Interval{0, 0} : left_over(named);
  out.cap = std::min(out.cap, out.unnamed.upper);
  return out;
}

struct Shared {
  std::int64_t id = 0;
  double log_p = 0, log_q = 0;
};

/// Both lists hold every token, by id.
void fill_scaled(const ListedMasses& train, const ListedMasses& inf, Support& out) {
  if (train.scaled.empty() || inf.scaled.empty()) return;
  for (std::size_t i = 0; i < train.scaled.size(); ++i) {
    out.scaled.push_back({train.scaled[i], inf.scaled[i]});
  }
  out.error_train = train.error;
  out.error_inf = inf.error;
}

/// Splits the tokens into those that both kernels reported and those that one kernel reported.
std::vector<Shared> fill_support(const PartialInput& input, const Named& train, const Named& inf,
                                 Support& out) {
  std::vector<Shared> shared;
  Interval p_shared, q_shared, p_only, q_only;
  auto a = train.tokens.begin();
  auto b = inf.tokens.begin();
  while (a != train.tokens.end() || b != inf.tokens.end()) {
    const bool from_train = b == inf.tokens.end() || (a != train.tokens.end() && a->id <= b->id);
    const bool from_inf = a == train.tokens.end() || (b != inf.tokens.end() && b->id <= a->id);
    const auto at_a = static_cast<std::size_t>(a - train.tokens.begin());
    const auto at_b = static_cast<std::size_t>(b - inf.tokens.begin());
    const Interval p = from_train ? train.listed.masses[at_a] : Interval{0, train.cap};
    const Interval q = from_inf ? inf.listed.masses[at_b] : Interval{0, inf.cap};
    if (from_train && from_inf) {
      shared.push_back({a->id, a->logprob, b->logprob});
      out.shared.push_back({p, q});
      grow(p_shared, p);
      grow(q_shared, q);
    } else if (from_train) {
      out.only_train.push_back({p, q});
      grow(q_only, q);
    } else {
      out.only_inf.push_back({p, q});
      grow(p_only, p);
    }
    a += from_train ? 1 : 0;
    b += from_inf ? 1 : 0;
  }
  out.complete = input.vocabulary > 0 && shared.size() == input.vocabulary;
  if (out.complete) fill_scaled(train.listed, inf.listed, out);
  out.tail = out.complete ? MassPair{} : MassPair{left_over(p_shared), left_over(q_shared)};
  out.unnamed_train = train.unnamed.upper;
  out.unnamed_inf = inf.unnamed.upper;
  out.rest = {{std::max(0.0, train.unnamed.lower - p_only.upper), train.unnamed.upper},
              {std::max(0.0, inf.unnamed.lower - q_only.upper), inf.unnamed.upper}};
  return shared;
}

/// Bounds of −x·log x over a range, from its ends and its maximum at 1/e.
Interval entropy_term(const Interval& x) {
  const auto f = [](double v) { return v > 0 ? -v * std::log(v) : 0.0; };
  constexpr double kPeak = 0.36787944117144233;
  const double ends_high = std::max(f(x.lower), f(x.upper));
  const bool peak = x.lower < kPeak && kPeak < x.upper;
  return {std::min(f(x.lower), f(x.upper)), peak ? kPeak : ends_high};
}

Interval entropy_bounds(const Named& named, std::uint32_t vocabulary) {
  Interval sum;
  for (const Interval& mass : named.listed.masses) grow(sum, entropy_term(mass));
  const Interval& tail = named.unnamed;
  if (tail.upper == 0) return sum;
  // Every other token has a probability of at most min(cap, tail), so that −log of it is at least −log of
  // that.
  if (tail.lower > 0) sum.lower += tail.lower * -std::log(std::min(named.cap, tail.upper));
  if (vocabulary == 0) {
    sum.upper = kInfinity;
  } else {
    const double others = static_cast<double>(vocabulary) - static_cast<double>(named.tokens.size());
    sum.upper += entropy_term(tail).upper + tail.upper * std::log(std::max(1.0, others));
    sum.upper = std::min(sum.upper, std::log(static_cast<double>(vocabulary)));
  }
  return {std::min(std::max(0.0, sum.lower), sum.upper), sum.upper};
}

/// The spread of log p − log q over the shared tokens; any other token can only widen it.
double least_span(const std::vector<Shared>& shared, const PartialInput& input) {
  double low = kInfinity, high = -kInfinity, slack = 0;
  for (const Shared& token : shared) {
    const double d = token.log_p - token.log_q;
    low = std::min(low, d);
    high = std::max(high, d);
    slack = std::max(slack, source_error_of(token.log_p, input.train.error) +
                                source_error_of(token.log_q, input.inf.error));
  }
  return shared.empty() ? 0 : std::max(0.0, high - low - 2 * slack);
}

std::optional<double> logprob_of(const PartialInput& input, const PartialSide& side) {
  if (side.target_logprob || !input.token) return side.target_logprob;
  const auto found = std::ranges::find(side.list, *input.token, &ListedToken::id);
  if (found == side.list.end()) return std::nullopt;
  return found->logprob;
}

/// The set of the estimate must not depend on which token was sampled, so the least of a full list, which may
/// be an appended one, is never in it.
std::optional<double> kl_estimate(const PartialInput& input, const PartialRow& row) {
  if (input.mode == CaptureMode::realised || !input.token || !row.logprob_train || !row.logprob_inf) {
    return std::nullopt;
  }
  const auto train = surely_listed(input.train.list, input), inf = surely_listed(input.inf.list, input);
  double sum = 0;
  bool listed = false;
  auto q = inf.begin();
  for (const ListedToken& p : train) {
    while (q != inf.end() && q->id < p.id) ++q;
    if (q == inf.end()) break;
    if (q->id != p.id) continue;
    sum += std::exp(static_cast<double>(q->logprob)) *
           cpu::phi(static_cast<double>(p.logprob) - static_cast<double>(q->logprob));
    listed = listed || p.id == *input.token;
  }
  return listed ? sum : sum + cpu::phi(*row.logprob_train - *row.logprob_inf);
}

}  // namespace

std::vector<Metric> bounded_metrics(CaptureMode mode) {
  if (!is_partial(mode)) return {};
  std::vector<Metric> out{Metric::logit_span, Metric::tv,         Metric::kl_train_inf, Metric::kl_inf_train,
                          Metric::js,         Metric::hellinger2, Metric::chi2};
  if (mode == CaptureMode::realised) {
    out.erase(out.begin());  // a single token has no span
    return out;
  }
  out.insert(out.begin(), Metric::logit_max_abs);
  out.insert(out.end(), {Metric::entropy_train, Metric::entropy_inf, Metric::top1_flip});
  if (mode == CaptureMode::topk) out.insert(out.end(), {Metric::topk_overlap, Metric::top1_margin});
  return out;
}

PartialRow measure_partial_row(const PartialInput& input) {
  PartialRow row;
  row.bounds.fill({kNaN, kNaN});
  row.logprob_train = logprob_of(input, input.train);
  row.logprob_inf = logprob_of(input, input.inf);
  const Named train = name_tokens(input, input.train), inf = name_tokens(input, input.inf);
  Support support;
  const std::vector<Shared> shared = fill_support(input, train, inf, support);
  row.tail_train = support.tail.p.upper;
  row.tail_inf = support.tail.q.upper;
  row.unknown = shared.empty();
  const DivergenceBounds d = divergence_bounds(support);
  at(row, Metric::tv) = d.tv;
  at(row, Metric::kl_train_inf) = d.kl_train_inf;
  at(row, Metric::kl_inf_train) = d.kl_inf_train;
  at(row, Metric::js) = d.js;
  at(row, Metric::hellinger2) = d.hellinger2;
  at(row, Metric::chi2) = d.chi2;
  if (input.mode == CaptureMode::realised) return row;
  const double span = least_span(shared, input);
  at(row, Metric::logit_span) = {span, kInfinity};
  at(row, Metric::logit_max_abs) = {span / 2, kInfinity};
  at(row, Metric::entropy_train) = entropy_bounds(train, input.vocabulary);
  at(row, Metric::entropy_inf) = entropy_bounds(inf, input.vocabulary);
  PartialInput tops = input;
  if (input.mode == CaptureMode::matched) {  // the target token may be the most likely one without being
                                             // among the chosen ids
    tops.train.list = train.tokens;
    tops.inf.list = inf.tokens;
  }
  at(row, Metric::top1_flip) = top1_bounds(tops, train.unnamed.upper, inf.unnamed.upper);
  if (input.mode == CaptureMode::topk) {
    at(row, Metric::topk_overlap) = overlap_bounds(input);
    at(row, Metric::top1_margin) = margin_bounds(input);
    if (!input.train.list.empty() && !input.inf.list.empty()) {
      const auto most = [](std::span<const ListedToken> list) {
        return std::exp(static_cast<double>(std::ranges::max(list, {}, &ListedToken::logprob).logprob));
      };
      row.top_train = most(input.train.list);
      row.top_inf = most(input.inf.list);
    }
  }
  row.kl_estimate = kl_estimate(input, row);
  return row;
}

}  // namespace driftgate::gpu
