#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/capture/row_logits.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/support/bets_kernel.hpp"
#include "gpu/table/support_sums.hpp"

namespace driftgate::gpu {

/// The whole distributions of one row, by their logits before the division by the temperature.
struct SupportRow {
  LogitRow train, inf;
  std::int64_t token;  ///< that was sampled, in [0, vocabulary)
};

/// Bets, row after row, that tokens were not sampled from q (docs/design/measurement.md, "Link 5: policy
/// gradients"). What is bet on a row depends on the rows before it and not on its own token, so that the
/// expected factor of each row is at most 1 if the token was sampled from q, whatever the order of the
/// sequences. The result does not depend on the number of threads.
class SupportBets {
 public:
  /// `vocabulary` and `threads` are at least 1; `temperature` is that of the captures.
  SupportBets(std::uint32_t vocabulary, double temperature, std::uint32_t threads,
              const BetsKernel& kernel = best_bets());
  SupportBets(const SupportBets&) = delete;
  SupportBets& operator=(const SupportBets&) = delete;
  ~SupportBets();

  /// Adds one row to the sums of its sequence. Rows of a sequence come in the order of their positions. A row
  /// with NaN, with +infinity, or with a token that only one kernel masks, is left out.
  void add(const SupportRow& row, SupportSums& out);

 private:
  struct Part;  ///< what one range of columns adds
  void each_part(const std::function<void(Part&)>& step);
  void read(const SupportRow& row, Part& part);
  [[nodiscard]] BetColumns columns_of(const Part& part);
  void weigh(Part& part);
  void bet(Part& part);
  void settle(std::size_t token, double odds, SupportSums& out);
  void settle_filter(std::size_t bet, double factor, SupportSums& out);
  void settle_ranges(std::size_t token, SupportSums& out);

  const BetsKernel& kernel_;
  std::uint32_t vocabulary_;
  double temperature_;
  cpu::ThreadPool pool_;
  std::vector<double> z_, y_;        ///< logits, then e^(logit − largest), of K_train and K_inf
  std::vector<std::uint16_t> bins_;  ///< of each token by its q
  /// By token: how much likelier what was seen is if the token is never taken, times the odds of that before
  /// anything was seen; 0 once it was taken.
  std::vector<double> odds_;
  std::array<double, kFilterBets> stakes_;  ///< the share of the wealth that is bet on each filter
  std::vector<double>
      ranges_;  ///< the share of the wealth that is bet against each range; the last one is kept
  std::vector<double> range_q_, range_p_;
  std::vector<Part> parts_;
  double top_train_ = 0, top_inf_ = 0, sum_train_ = 0, sum_inf_ = 0;  ///< of the row
};

}  // namespace driftgate::gpu
