#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// What α is spent on (docs/design/statistics.md, "Spending").
struct SpendingKey {
  std::string checkpoint{};  ///< digest
  std::string kernel{};      ///< digest of K_inf
  std::string contract{};    ///< digest
  std::string stage{};
  bool operator==(const SpendingKey&) const = default;
};

/// The k-th run for a key.
struct SpendingRow {
  SpendingKey key{};
  std::int64_t k = 0;           ///< from 1
  std::string inputs_digest{};  ///< of the captures; of the stage key for a streaming stage
  StageKey run{};               ///< who spent it; its verdicts are the stored ones
  std::int64_t spent_us = 0;
  bool operator==(const SpendingRow&) const = default;
};

struct Spent {
  SpendingRow row{};
  bool reused = false;  ///< the same inputs were run before: `row.run` has the verdicts and nothing is spent
};

/// The run of these inputs, or the next k.
Result<Spent> spend(Tx& tx, const SpendingKey& key, std::string_view inputs_digest, const StageKey& run,
                    std::int64_t now_us);
/// How many runs a key has had: the next one is k + 1.
Result<std::int64_t> runs_spent(Reader& reader, const SpendingKey& key);

}  // namespace driftgate::store
