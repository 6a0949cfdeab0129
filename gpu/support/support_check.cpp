#include "gpu/support/support_check.hpp"

#include <algorithm>
#include <thread>
#include <unordered_map>

#include "gpu/capture/row_logits.hpp"
#include "gpu/support/support_bets.hpp"

namespace driftgate::gpu {

namespace {

bool testable(const Capture& train, const Capture& inf, const MeasurementTable& table) {
  return train.mode() == CaptureMode::full && !train.on_device() && !inf.on_device() &&
         table.sampled_by_inf() && table.train.kernel != table.inf.kernel && train.rows() > 0;
}

}  // namespace

void check_support(const Capture& train, const Capture& inf, std::uint32_t threads, MeasurementTable& table) {
  if (!testable(train, inf, table)) return;
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  const std::uint64_t columns = kSupportColumns / train.vocabulary();
  const std::uint64_t rows = std::min(train.rows(), std::clamp(columns, kLeastSupportRows, kMostSupportRows));
  struct Sequence {
    std::size_t index = 0;
    std::optional<std::int64_t> position;  ///< of the last row that was looked at
  };
  std::unordered_map<std::int64_t, Sequence> sequences;
  for (std::size_t i = 0; i < table.sequences.size(); ++i) sequences[table.sequences[i].sequence] = {i, {}};
  SupportBets bets(train.vocabulary(), train.identity().temperature, threads);
  for (std::uint64_t i = 0; i < rows; ++i) {
    const std::uint64_t row = i * train.rows() / rows;
    const auto at = static_cast<std::size_t>(row);
    const auto found = sequences.find(train.sequence_ids()[at]);
    const std::int64_t token = train.token_ids()[at];
    if (found == sequences.end() || token < 0 || token >= train.vocabulary()) continue;
    // The bets on a row know the rows before it, among which there must be none that follows it in its
    // sequence.
    Sequence& sequence = found->second;
    if (sequence.position && train.positions()[at] <= *sequence.position) continue;
    sequence.position = train.positions()[at];
    auto& sums = table.sequences[sequence.index].support;
    if (!sums) sums.emplace();
    bets.add({logits_of(train, row), logits_of(inf, row), token}, *sums);
    if (sums->rows == 0) sums.reset();
  }
}

}  // namespace driftgate::gpu
