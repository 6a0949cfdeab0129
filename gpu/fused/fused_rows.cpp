#include "gpu/fused/fused_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/cpu/row_figures.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu::fused {

namespace {

using schema::Metric;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Tokens with at least this share of the mass outside the most likely token, and the k most likely tokens,
/// are computed in float64. The errors of the others, about 3e-7 of a logit or its drift each, then average
/// out over more than five hundred tokens.
constexpr double kExactShare = 1.0 / 512;
/// Logits this close to the k-th largest may be among the k largest in float64.
constexpr double kTieMargin = 1e-5;
/// Permitted errors of divergences (docs/design/measurement.md, "Error bounds").
constexpr double kRelativeError = 1e-6, kAbsoluteError = 1e-15;

double& at(driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

/// Logarithm of the mass outside the most likely token, as a share of the sums e^m·l; at least that of 1e-12
/// of the whole.
constexpr double kLeastRest = 27.6;
double rest_of(double m, double l, const cpu::TopList& top) {
  const double whole = m + std::log(l);
  const double rest = l - std::exp(top.entries[0].value - m);
  return std::max(whole - kLeastRest, rest > 0 ? m + std::log(rest) : -kInfinity);
}

/// The floor that follows from a list of the most likely tokens, whose last entry is `kth`.
double below(double kth) {
  return std::isfinite(kth) ? kth - kTieMargin * (1 + std::abs(kth)) : kth;
}

/// One divergence: `spread` is Σe·φ(∓d')/l and `shift` the mean of ∓d'; u = e^{o} − 1.
bool one_pass(double spread, double shift, double& kl) {
  const double u = spread - shift;
  if (!(u > -1)) return false;
  kl = std::max(0.0, spread - cpu::phi(std::log1p(u)));  // u − log1p u = φ(log1p u)
  const double estimate = 8 * std::numeric_limits<double>::epsilon() *
                          (spread + (spread + std::abs(shift)) * std::abs(u / (1 + u)));
  return estimate <= std::max(kRelativeError * kl, kAbsoluteError);
}

}  // namespace

OnePassKl one_pass_kl(const cpu::Pass1& sums) {
  OnePassKl out{0, 0, false};
  const bool train = one_pass(sums.g / sums.l_p, sums.s / sums.l_p, out.train_inf);
  const bool inf = one_pass(sums.h / sums.l_q, -sums.t / sums.l_q, out.inf_train);
  out.accurate = train && inf;
  return out;
}

FusedRows::FusedRows(const ProductKernel& kernel, const HeadPair& heads, std::uint32_t top_k,
                     std::uint32_t metrics, std::size_t most_rows)
    : kernel_(kernel),
      heads_(heads),
      top_k_(top_k),
      capacity_(std::max<std::uint32_t>(top_k, 2)),  // top1_margin needs two
      all_metrics_(metrics == DRIFTGATE_METRICS_ALL),
      most_rows_(std::min(most_rows, block_rows(kernel, heads.train->width()))),
      product_(kernel, heads, most_rows_) {
  rows_.resize(most_rows_);
  entries_.resize(2 * most_rows_ * capacity_);
  for (auto* values :
       {&e_, &sorted_, &exact_z_, &exact_drift_, &exact_bias_, &exact_bias_drift_, &no_bias_}) {
    values->resize(kTileTokens);
  }
  chosen_.resize(kTileTokens);
  again_.reserve(most_rows_);
  again_at_.reserve(most_rows_);
  tokens_.resize(most_rows_);
}

std::size_t FusedRows::scratch_bytes() const {
  return product_.scratch_bytes() + sizeof(Row) * rows_.size() + sizeof(cpu::TopEntry) * entries_.size() +
         sizeof(double) * 7 * kTileTokens + sizeof(std::uint32_t) * kTileTokens +
         sizeof(std::size_t) * most_rows_ + (sizeof(HiddenRow) + sizeof(tokens_[0])) * most_rows_;
}

void FusedRows::measure(std::span<const HiddenRow> rows, const std::int64_t* tokens,
                        std::span<driftgate_row> out) {
  for (std::size_t begin = 0; begin < rows.size(); begin += most_rows_) {
    const auto block = rows.subspan(begin, std::min(most_rows_, rows.size() - begin));
    start(block);
    for (std::size_t row = 0; row < block.size(); ++row) {
      tokens_[row] = tokens == nullptr ? std::nullopt : target_logit(row, tokens[begin + row]);
    }
    for (std::size_t first = 0; first < heads_.tokens.size(); first += kTileTokens) {
      const std::size_t count = std::min(kTileTokens, heads_.tokens.size() - first);
      product_.multiply(first, count);
      for (std::size_t row = 0; row < block.size(); ++row) first_pass(row, first, count);
    }
    take_second_product(block);
    for (std::size_t row = 0; row < block.size(); ++row) {
      finish(rows_[row], tokens_[row], tokens != nullptr, out[begin + row]);
    }
  }
}

void FusedRows::start(std::span<const HiddenRow> rows) {
  product_.set_rows(rows);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    cpu::TopEntry* entries = entries_.data() + 2 * row * capacity_;
    rows_[row] = {};
    rows_[row].top_train = {entries, capacity_, 0};
    rows_[row].top_inf = {entries + capacity_, capacity_, 0};
    // Every logit of a hidden state that is not finite is counted as nonfinite.
    for (const bool finite : {product_.finite_train(row), product_.finite_inf(row)}) {
      if (!finite) rows_[row].nonfinite += heads_.tokens.size();
    }
  }
}

std::uint64_t FusedRows::form(std::size_t packed, std::size_t first, std::size_t count, TileTop& top) {
  const bool bias = !heads_.bias_train.empty();
  return kernel_.form(product_.z(packed), product_.drift(packed),
                      bias ? heads_.bias_train.data() + first : no_bias_.data(),
                      bias ? heads_.bias_drift.data() + first : no_bias_.data(), count, heads_.shape, top);
}

/// The k-th largest of some values; −∞ when there are fewer.
double FusedRows::largest_but(const double* values, std::size_t count, std::size_t k) {
  if (count < k) return -kInfinity;
  std::copy_n(values, count, sorted_.begin());
  const auto place = sorted_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted_.begin(), place, sorted_.begin() + static_cast<std::ptrdiff_t>(count),
                   std::greater<>());
  return *place;
}

TileTop FusedRows::floor_of(const Row& row, const double* z, const double* drift, std::size_t count,
                            const TileTop& top) {
  const auto floor = [&](const cpu::TopList& list, double m, double l, double most, bool inf) {
    const bool full = list.size == list.capacity;
    if (!full) {
      for (std::size_t i = 0; i < count; ++i) exact_z_[i] = inf ? z[i] - drift[i] : z[i];
    }
    const double kth =
        full ? list.entries[list.size - 1].value : largest_but(exact_z_.data(), count, capacity_);
    double rest = row.any ? std::max(rest_of(m, l, list), std::min(list.entries[0].value, most))
                          : largest_but(exact_z_.data(), count, 2);
    rest = std::max(rest, most - kLeastRest);
    return std::min(below(kth), rest + std::log(kExactShare));
  };
  const cpu::Pass1& sums = row.sums;
  return {floor(row.top_train, sums.m_p, sums.l_p, top.z, false),
          floor(row.top_inf, sums.m_q, sums.l_q, top.y, true)};
}

void FusedRows::refine(std::size_t packed, std::size_t first, std::size_t count, const TileTop& floor) {
  double* z = product_.z(packed);
  double* drift = product_.drift(packed);
  const bool bias = !heads_.bias_train.empty();
  const std::size_t chosen = kernel_.above(z, drift, count, floor, chosen_.data());
  if (chosen == 0) return;
  for (std::size_t i = 0; i < chosen; ++i) {
    const std::size_t column = first + chosen_[i];
    const auto exact = product_.exact(packed, heads_.tokens[column]);
    exact_z_[i] = exact.z;
    exact_drift_[i] = exact.drift;
    exact_bias_[i] = bias ? heads_.bias_train[column] : 0;
    exact_bias_drift_[i] = bias ? heads_.bias_drift[column] : 0;
  }
  for (std::size_t i = chosen; i % cpu::kLanes != 0; ++i) {
    exact_z_[i] = exact_drift_[i] = exact_bias_[i] = exact_bias_drift_[i] = 0;
  }
  TileTop unused{};
  kernel_.form(exact_z_.data(), exact_drift_.data(), exact_bias_.data(), exact_bias_drift_.data(), chosen,
               heads_.shape, unused);
  for (std::size_t i = 0; i < chosen; ++i) {
    z[chosen_[i]] = exact_z_[i];
    drift[chosen_[i]] = exact_drift_[i];
  }
}

std::optional<FusedRows::TargetLogit> FusedRows::target_logit(std::size_t row, std::int64_t token) {
  const auto id = static_cast<std::uint32_t>(token);
  const auto found = std::ranges::lower_bound(heads_.tokens, id);
  if (found == heads_.tokens.end() || *found != id) return std::nullopt;
  if (!product_.finite_train(row) || !product_.finite_inf(row)) return std::nullopt;
  const auto column = static_cast<std::size_t>(found - heads_.tokens.begin());
  const auto exact = product_.exact(row, id);
  const bool bias = !heads_.bias_train.empty();
  double z[cpu::kLanes] = {exact.z}, drift[cpu::kLanes] = {exact.drift};
  double bias_train[cpu::kLanes] = {bias ? heads_.bias_train[column] : 0};
  double bias_drift[cpu::kLanes] = {bias ? heads_.bias_drift[column] : 0};
  TileTop unused{};
  kernel_.form(z, drift, bias_train, bias_drift, 1, heads_.shape, unused);
  return TargetLogit{z[0], drift[0]};
}

void FusedRows::first_pass(std::size_t row, std::size_t first, std::size_t count) {
  Row& self = rows_[row];
  if (!product_.finite_train(row) || !product_.finite_inf(row)) return;
  TileTop top{};
  self.nonfinite += form(row, first, count, top);
  if (self.nonfinite > 0) return;
  refine(row, first, count, floor_of(self, product_.z(row), product_.drift(row), count, top));
  cpu::Tile tile{product_.z(row), product_.drift(row), e_.data(), count, 0, 0, 0};
  cpu::Pass1 sums{};
  kernel_.tiles->pass1_drift(tile, heads_.tokens.data() + first, self.top_train, self.top_inf, sums);
  if (self.any) {
    cpu::merge(self.sums, sums);
  } else {
    self.sums = sums;
  }
  self.any = true;
}

void FusedRows::take_second_product(std::span<const HiddenRow> rows) {
  again_.clear();
  again_at_.clear();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Row& self = rows_[row];
    if (self.nonfinite > 0 || !self.any) continue;
    self.offset = cpu::offset_of(self.sums);
    self.lse = cpu::log_sum(self.sums);
    const OnePassKl kl = one_pass_kl(self.sums);
    if (kl.accurate) self.kl = kl;
    if (all_metrics_ || !kl.accurate) {
      const auto floor = [](double m, double l, const cpu::TopList& top) {
        return std::min(below(top.entries[top.size - 1].value), rest_of(m, l, top) + std::log(kExactShare));
      };
      self.floor = {floor(self.sums.m_p, self.sums.l_p, self.top_train),
                    floor(self.sums.m_q, self.sums.l_q, self.top_inf)};
      cpu::choose_heads(self.sums, self.terms);
      again_.push_back(rows[row]);
      again_at_.push_back(row);
    }
  }
  if (again_.empty()) return;
  if (again_.size() < rows.size()) product_.set_rows(again_);
  for (std::size_t first = 0; first < heads_.tokens.size(); first += kTileTokens) {
    const std::size_t count = std::min(kTileTokens, heads_.tokens.size() - first);
    product_.multiply(first, count);
    for (std::size_t i = 0; i < again_.size(); ++i) second_pass(again_at_[i], i, first, count);
  }
}

void FusedRows::second_pass(std::size_t row, std::size_t packed, std::size_t first, std::size_t count) {
  Row& self = rows_[row];
  TileTop unused{};
  form(packed, first, count, unused);
  refine(packed, first, count, self.floor);
  cpu::Tile tile{product_.z(packed), product_.drift(packed), e_.data(), count, 0, 0, 0};
  cpu::TopEntry ignored[2];
  cpu::TopList none_train{&ignored[0], 1, 0}, none_inf{&ignored[1], 1, 0};
  cpu::Pass1 sums{};
  kernel_.tiles->pass1_drift(tile, heads_.tokens.data() + first, none_train, none_inf, sums);
  kernel_.tiles->pass2(tile, self.sums.c, self.offset, self.lse, self.terms);
}

void FusedRows::finish(const Row& row, const std::optional<TargetLogit>& token, bool has_token,
                       driftgate_row& out) const {
  cpu::clear_figures(out);
  at(out, Metric::nonfinite) = static_cast<double>(row.nonfinite);
  if (row.nonfinite > 0 || !row.any) {
    out.status = row.nonfinite > 0 ? DRIFTGATE_ROW_NONFINITE : DRIFTGATE_ROW_ALL_MASKED;
    return;
  }
  std::optional<cpu::TargetLogits> logits;
  if (has_token) logits = cpu::TargetLogits{-kInfinity, -kInfinity};
  if (token) logits = cpu::TargetLogits{token->z, token->z - token->drift};
  // The logits are already divided by the temperature.
  cpu::finish_row({row.sums, row.terms, row.top_train, row.top_inf, row.offset, top_k_, 1.0, logits}, out);
  if (row.kl) {
    at(out, Metric::kl_train_inf) = row.kl->train_inf;
    at(out, Metric::kl_inf_train) = row.kl->inf_train;
  }
  if (token) at(out, Metric::log_ratio) = (token->drift - row.sums.c) + row.offset;
  if (!all_metrics_) cpu::keep_core(out);
}

}  // namespace driftgate::gpu::fused
