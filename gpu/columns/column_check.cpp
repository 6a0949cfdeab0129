#include "gpu/columns/column_check.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gpu/capture/row_logits.hpp"

namespace driftgate::gpu {

namespace {

using Tokens = std::unordered_set<std::int64_t>;

/// The target tokens that came before a row in its sequence.
class TokensBefore {
 public:
  explicit TokensBefore(const Capture& capture) : capture_(capture) {}

  /// Rows are asked for in ascending order.
  const Tokens& of(std::uint64_t row) {
    for (; next_ < row; ++next_) {
      const auto at = static_cast<std::size_t>(next_);
      const std::int64_t token = capture_.token_ids()[at];
      if (token >= 0 && token < capture_.vocabulary()) tokens_[capture_.sequence_ids()[at]].insert(token);
    }
    return tokens_[capture_.sequence_ids()[static_cast<std::size_t>(row)]];
  }

 private:
  const Capture& capture_;
  std::uint64_t next_ = 0;
  std::unordered_map<std::int64_t, Tokens> tokens_;
};

class ColumnPass {
 public:
  ColumnPass(std::uint32_t vocabulary, ColumnContrast& out) : drift_(vocabulary), out_(out) {
    out_.block_columns = (vocabulary + kMostColumnBlocks - 1) / kMostColumnBlocks;
    out_.blocks.resize((vocabulary + out_.block_columns - 1) / out_.block_columns);
    is_before_.resize(vocabulary);
  }

  void add(const LogitRow& train, const LogitRow& inf, const Tokens& before) {
    if (!read(train, inf)) return;
    const double middle = middle_of_row();
    if (!std::isfinite(middle)) return;
    ++out_.rows;
    for (const std::int64_t token : before) is_before_[static_cast<std::size_t>(token)] = 1;
    for (std::size_t v = 0; v < drift_.size(); ++v) {
      if (std::isnan(drift_[v])) continue;
      const double offset = drift_[v] - middle;
      out_.blocks[v / out_.block_columns].add(offset);
      if (!before.empty()) (is_before_[v] != 0 ? out_.before : out_.others).add(offset);
    }
    for (const std::int64_t token : before) is_before_[static_cast<std::size_t>(token)] = 0;
  }

 private:
  /// NaN stands for a column that both mask. False where the row cannot be used.
  bool read(const LogitRow& train, const LogitRow& inf) {
    for (std::size_t v = 0; v < drift_.size(); ++v) {
      const double z = train.at(v), y = inf.at(v);
      const bool masked = std::isinf(z) && std::isinf(y) && z < 0 && y < 0;
      if (!masked && !std::isfinite(z - y)) return false;
      drift_[v] = masked ? std::nan("") : z - y;
    }
    return true;
  }

  /// The middle of the shortest interval that has half of the blocks' means: what most blocks have in common,
  /// also where nearly half of them drift.
  double middle_of_row() {
    means_.clear();
    for (std::size_t first = 0; first < drift_.size(); first += out_.block_columns) {
      const std::size_t end = std::min<std::size_t>(drift_.size(), first + out_.block_columns);
      double sum = 0;
      std::size_t n = 0;
      for (std::size_t v = first; v < end; ++v) {
        if (std::isnan(drift_[v])) continue;
        sum += drift_[v];
        ++n;
      }
      if (n > 0) means_.push_back(sum / static_cast<double>(n));
    }
    if (means_.empty()) return std::nan("");
    std::ranges::sort(means_);
    const std::size_t half = means_.size() / 2;
    std::size_t best = 0;
    for (std::size_t i = 0; i + half < means_.size(); ++i) {
      if (means_[i + half] - means_[i] < means_[best + half] - means_[best]) best = i;
    }
    return (means_[best] + means_[best + half]) / 2;
  }

  std::vector<double> drift_, means_;
  std::vector<std::uint8_t> is_before_;
  ColumnContrast& out_;
};

}  // namespace

void check_columns(const Capture& train, const Capture& inf, MeasurementTable& table) {
  if (train.mode() != CaptureMode::full || train.on_device() || inf.on_device() || train.rows() == 0) return;
  ColumnContrast found;
  ColumnPass pass(train.vocabulary(), found);
  TokensBefore before(train);
  const Tokens none;
  const std::uint64_t rows = std::min(train.rows(), kMostColumnRows);
  for (std::uint64_t i = 0; i < rows; ++i) {
    const std::uint64_t row = i * train.rows() / rows;
    pass.add(logits_of(train, row), logits_of(inf, row), train.has_tokens() ? before.of(row) : none);
  }
  if (found.rows > 0) table.columns = std::move(found);
}

}  // namespace driftgate::gpu
