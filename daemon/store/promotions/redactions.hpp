#pragma once

#include <string_view>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// Deletes a blob; false when there is none. The log keeps its digest.
Result<bool> delete_blob(Tx& tx, std::string_view digest);
/// Deletes what the statistical tests of an ended promotion store of single keys. Returns the number of rows.
Result<std::int64_t> delete_stream_states(Tx& tx, std::string_view promotion);
/// Deletes the series of all live stages of an ended promotion. Returns the number of points.
Result<std::int64_t> delete_live_series(Tx& tx, std::string_view promotion);

}  // namespace driftgate::store
