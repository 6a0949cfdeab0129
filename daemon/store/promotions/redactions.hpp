#pragma once

#include <string_view>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// Deletes the bytes of a blob; false when there are none. What the log says of its digest stays.
Result<bool> delete_blob(Tx& tx, std::string_view digest);
/// Deletes what the tests of a promotion that has ended remember of single keys. Returns how many rows.
Result<std::int64_t> delete_stream_states(Tx& tx, std::string_view promotion);

}  // namespace driftgate::store
