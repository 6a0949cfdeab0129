#pragma once

#include <cstdint>
#include <string>

#include "daemon/evidence/tables/log_view.hpp"

namespace driftgate::evidence::tables {

// Each function compares one thing of the tables with its entries, in the caller's snapshot. Errors are of
// reading; differences go to the view's findings.

/// Its row, its routes, the versions in them, and its promotions that have not ended.
Result<void> check_model(LogView& log, const std::string& model);
/// The promotion's row, its contract's document, and the versions that it names.
Result<void> check_promotion(LogView& log, const std::string& promotion);
/// Its stage runs, verdicts, approvals and waivers.
Result<void> check_promotion_parts(LogView& log, const std::string& promotion);
/// That a version's row is what its entry names: `entry` is model_bootstrapped or promotion_requested.
Result<void> check_version(LogView& log, const std::string& version, const LogEntry& entry);

Result<void> check_tokens(LogView& log);
Result<void> check_contracts(LogView& log);
Result<void> check_kernels(LogView& log);
Result<void> check_engines(LogView& log);
/// Which files engines' keys and CAs are in.
Result<void> check_engine_access(LogView& log);
Result<void> check_blocks(LogView& log);
Result<void> check_schedules(LogView& log);
Result<void> check_recipes(LogView& log);

/// Fire times after the row `after` (0: from the start), a page at a time, and then `after` is the last one's.
/// False when there was none.
Result<bool> check_fires(LogView& log, std::int64_t& after);
/// The entries of fire times after `after` (−1: from the start), likewise. False when there are no more.
Result<bool> check_fire_entries(LogView& log, std::int64_t& after);

/// The bytes of blobs after the digest `after`, a few at a time; then `after` is the last one's, "" at the end.
Result<void> check_blobs(LogView& log, std::string& after);

/// That the entries of one block can be read, and, when it is full, what the index has of it and of the nodes
/// that it completes. Returns how many rows of places they make.
Result<std::int64_t> check_block(LogView& log, std::int64_t block);
/// That the index has no more rows of the first `blocks` than `rows`, no nodes but those of its blocks, and
/// nothing beyond them; and whether it has all full blocks of the log.
Result<void> check_index_size(LogView& log, std::int64_t blocks, std::int64_t rows);

}  // namespace driftgate::evidence::tables
