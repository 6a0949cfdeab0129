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

/// The key of a stage of a checkpoint and a kernel, by its name; `corrupt` when the kernel is not stored.
Result<SpendingKey> spending_key(Reader& reader, std::string_view checkpoint, std::string_view kernel,
                                 std::string_view contract, std::string_view stage);
/// Which run the next one on new inputs is: k, from 1. What `spend` would give, and what plans are made with.
Result<std::uint32_t> next_run(Reader& reader, const SpendingKey& key);
/// The run that had these inputs.
Result<std::optional<SpendingRow>> find_spent(Reader& reader, const SpendingKey& key,
                                              std::string_view inputs_digest);
/// The run of these inputs, or the next k.
Result<Spent> spend(Tx& tx, const SpendingKey& key, std::string_view inputs_digest, const StageKey& run,
                    std::int64_t now_us);

}  // namespace driftgate::store
