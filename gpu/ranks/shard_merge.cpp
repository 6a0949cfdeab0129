#include "gpu/ranks/shard_merge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "gpu/cpu/moment_merge.hpp"
#include "gpu/cpu/row_engine.hpp"
#include "gpu/cpu/row_figures.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu {

namespace {

/// A single engine measures rows in float64 whose log-ratio is below this share of tv; tv ≤ √(kl/2).
constexpr double kSmallPart = 0.0101;

using TopEntries = std::array<cpu::TopEntry, cpu::kMaxTopK>;

double kl_of(const cpu::Pass1& sums) {
  const double u = (sums.g - sums.s) / sums.l_p;
  return sums.g / sums.l_p - (u - std::log1p(u));
}

double log_ratio(const cpu::Pass1& sums, const cpu::TargetLogits& stored, double temperature) {
  const cpu::TargetLogits token = cpu::bounded(stored, sums, temperature);
  return ((token.train - token.inf) / temperature - sums.c) + cpu::offset_of(sums);
}

/// Whether the entropy of K_inf is small compared with the sums of which it is the difference, so that
/// float32 sums of tiles are not accurate enough.
bool small_entropy(const cpu::Pass1& sums) {
  constexpr double kCancelled = 4e-3;
  const double log_sum = std::log(sums.l_q);
  return log_sum - sums.a_q / sums.l_q < kCancelled * log_sum;
}

void add_head(driftgate_head& into, const driftgate_head& other) {
  into.min_d = std::min(into.min_d, other.min_d);
  into.max_d = std::max(into.max_d, other.max_d);
  into.tail_p += other.tail_p;
  into.tail_q += other.tail_q;
}

}  // namespace

struct ShardMerger::View {
  const ShardMerger& merger;
  std::span<const std::byte> messages;
  std::uint64_t rows, row;

  [[nodiscard]] const std::byte* message(std::uint32_t rank) const {
    return messages.data() + rank * merger.partial_bytes(rows);
  }
  [[nodiscard]] const driftgate_shard_partial& partial(std::uint32_t rank) const {
    return reinterpret_cast<const driftgate_shard_partial*>(message(rank))[row];
  }
  [[nodiscard]] const driftgate_top_entry* top(std::uint32_t rank) const {
    const std::byte* entries = message(rank) + rows * sizeof(driftgate_shard_partial);
    return reinterpret_cast<const driftgate_top_entry*>(entries) + 2 * row * merger.places_;
  }
  [[nodiscard]] std::optional<cpu::MergedMoments> moments() const {
    return cpu::merge_moments(
        {messages.data() + row * sizeof(driftgate_shard_partial), merger.partial_bytes(rows), merger.ranks_});
  }
  [[nodiscard]] std::uint64_t nonfinite() const {
    std::uint64_t out = 0;
    for (std::uint32_t rank = 0; rank < merger.ranks_; ++rank) out += partial(rank).nonfinite;
    return out;
  }
  [[nodiscard]] std::optional<cpu::TargetLogits> token() const {
    for (std::uint32_t rank = 0; rank < merger.ranks_; ++rank) {
      const driftgate_shard_partial& part = partial(rank);
      if (part.has_token != 0) return cpu::TargetLogits{part.token_train, part.token_inf};
    }
    return std::nullopt;
  }
  /// The sums over all ranks with unmasked columns; `exact` replaces the sums of the ranks that have it.
  [[nodiscard]] cpu::Pass1 sums(std::span<const driftgate_shard_terms> exact) const {
    std::optional<cpu::Pass1> out;
    for (std::uint32_t rank = 0; rank < merger.ranks_; ++rank) {
      const driftgate_pass1* part = &partial(rank).sums;
      if (!exact.empty() && exact[rank * rows + row].exact.n > 0) part = &exact[rank * rows + row].exact;
      if (!(part->n > 0)) continue;
      if (out) {
        cpu::merge(*out, cpu::unpacked(*part));
      } else {
        out = cpu::unpacked(*part);
      }
    }
    return out.value_or(cpu::Pass1{});
  }
  [[nodiscard]] bool any() const {
    for (std::uint32_t rank = 0; rank < merger.ranks_; ++rank) {
      if (partial(rank).sums.n > 0) return true;
    }
    return false;
  }
  /// The largest logits over all ranks. Ranks are in the order of columns, so that ties keep the lowest id.
  [[nodiscard]] cpu::TopList merged_top(bool inf, TopEntries& entries) const {
    cpu::TopList out{entries.data(), merger.places_, 0};
    for (std::uint32_t rank = 0; rank < merger.ranks_; ++rank) {
      const driftgate_top_entry* from = top(rank) + (inf ? merger.places_ : 0);
      const std::uint32_t count = inf ? partial(rank).top_inf : partial(rank).top_train;
      for (std::uint32_t i = 0; i < std::min(count, merger.places_); ++i) {
        std::uint32_t at = out.size;
        if (at == out.capacity) {
          if (!(from[i].value > out.entries[at - 1].value)) break;
          --at;
        } else {
          ++out.size;
        }
        for (; at > 0 && from[i].value > out.entries[at - 1].value; --at)
          out.entries[at] = out.entries[at - 1];
        out.entries[at] = {from[i].value, from[i].id};
      }
    }
    return out;
  }
};

std::size_t ShardMerger::partial_bytes(std::uint64_t rows) const {
  const std::size_t row = sizeof(driftgate_shard_partial) + 2 * places_ * sizeof(driftgate_top_entry);
  return static_cast<std::size_t>(rows) * row;
}

std::span<driftgate_shard_partial> ShardMerger::partials(std::span<std::byte> message, std::uint64_t rows) {
  return {reinterpret_cast<driftgate_shard_partial*>(message.data()), static_cast<std::size_t>(rows)};
}

std::span<driftgate_top_entry> ShardMerger::top(std::span<std::byte> message, std::uint64_t rows) const {
  std::byte* entries = message.data() + rows * sizeof(driftgate_shard_partial);
  return {reinterpret_cast<driftgate_top_entry*>(entries), static_cast<std::size_t>(2 * rows * places_)};
}

void ShardMerger::merge(std::span<const std::byte> messages, std::span<driftgate_shard_row> out) const {
  for (std::uint64_t row = 0; row < out.size(); ++row)
    merge_row({*this, messages, out.size(), row}, out[row]);
}

void ShardMerger::merge_row(const View& row, driftgate_shard_row& out) const {
  out = {};
  if (row.nonfinite() > 0 || !row.any()) {
    out.skip = 1;
    return;
  }
  const std::optional<cpu::MergedMoments> moments = row.moments();
  out.by_moments = moments ? 1 : 0;
  const cpu::Pass1 sums = moments ? moments->sums : row.sums({});
  cpu::Pass2 heads{};
  cpu::choose_heads(sums, heads);
  out.sums = cpu::packed(sums);
  out.offset = cpu::offset_of(sums);
  out.lse = cpu::log_sum(sums);
  for (std::size_t i = 0; i < DRIFTGATE_HEADS; ++i) out.least_p[i] = heads.heads[i].least_p;
  const auto token = row.token();
  const double most = kSmallPart * std::sqrt(std::max(0.0, kl_of(sums)) / 2);
  if (token && std::abs(log_ratio(sums, *token, temperature_)) < most) out.exact = 1;
  if (!moments && small_entropy(sums)) out.exact = 1;
}

void ShardMerger::finish(std::span<const std::byte> messages, std::span<const driftgate_shard_row> merged,
                         std::span<const driftgate_shard_terms> terms, std::span<driftgate_row> out) const {
  for (std::uint64_t row = 0; row < out.size(); ++row) {
    finish_row({*this, messages, out.size(), row}, merged[row], terms, out[row]);
  }
}

void ShardMerger::finish_row(const View& row, const driftgate_shard_row& merged,
                             std::span<const driftgate_shard_terms> terms, driftgate_row& out) const {
  cpu::clear_figures(out);
  const std::uint64_t nonfinite = row.nonfinite();
  out.values[static_cast<std::size_t>(schema::Metric::nonfinite)] = static_cast<double>(nonfinite);
  if (merged.skip != 0) {
    out.status = nonfinite > 0 ? DRIFTGATE_ROW_NONFINITE : DRIFTGATE_ROW_ALL_MASKED;
    return;
  }
  driftgate_shard_terms all = terms[row.row];
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    const driftgate_shard_terms& part = terms[rank * row.rows + row.row];
    all.kl_train_inf += part.kl_train_inf, all.kl_inf_train += part.kl_inf_train;
    all.tv += part.tv, all.js += part.js, all.hellinger2 += part.hellinger2, all.chi2 += part.chi2;
    for (std::size_t i = 0; i < DRIFTGATE_HEADS; ++i) add_head(all.heads[i], part.heads[i]);
  }
  cpu::Pass2 sums{};
  sums.kl_train_inf = all.kl_train_inf, sums.kl_inf_train = all.kl_inf_train;
  sums.tv = all.tv, sums.js = all.js, sums.hellinger2 = all.hellinger2, sums.chi2 = all.chi2;
  for (std::size_t i = 0; i < DRIFTGATE_HEADS; ++i) {
    const driftgate_head& head = all.heads[i];
    sums.heads[i] = {merged.least_p[i], head.min_d, head.max_d, head.tail_p, head.tail_q};
  }
  TopEntries train_entries, inf_entries;
  const cpu::TopList train = row.merged_top(false, train_entries), inf = row.merged_top(true, inf_entries);
  const std::optional<cpu::MergedMoments> moments = merged.by_moments != 0 ? row.moments() : std::nullopt;
  if (moments) {
    const cpu::MomentFigures& known = moments->figures;
    sums.kl_train_inf = known.kl_train_inf, sums.kl_inf_train = known.kl_inf_train;
    sums.js = known.js, sums.hellinger2 = known.hellinger2, sums.chi2 = known.chi2;
  }
  const cpu::Pass1 pass1 = merged.exact != 0 ? row.sums(terms) : cpu::unpacked(merged.sums);
  cpu::finish_row({pass1, sums, train, inf, cpu::offset_of(pass1), top_k_, temperature_, row.token()}, out);
}

}  // namespace driftgate::gpu
