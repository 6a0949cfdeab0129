#pragma once

#include <vector>

#include "daemon/evidence/verify/difference.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

/// Compares with the log what a daemon acts on: routes, incumbents, live promotions and tokens. It runs before
/// the daemon is ready, so it takes time by what is live and not by the length of the log. Errors are of
/// reading alone; each difference is named.
[[nodiscard]] schema::Result<std::vector<Difference>> compare_live_tables(store::Store& store);

/// Compares with the log every table that is derived from it, ended promotions too: in the background after a
/// start, and offline. It reads in short transactions with `go_on` between them.
[[nodiscard]] schema::Result<std::vector<Difference>> compare_all_tables(store::Store& store,
                                                                         const GoOn& go_on);

/// Compares with the log its index alone: when it is not whole (is_indexed), a look for each table's entries
/// would read the log from end to end.
[[nodiscard]] schema::Result<std::vector<Difference>> compare_index(store::Store& store);

/// Whether entries are found by what they say: the columns beside each entry's bytes, the index of promotions
/// and the blocks of the index are compared with the entries themselves. A damaged one would hide entries
/// from queries while the log itself verifies (verify_log). `corrupt` names the first difference.
[[nodiscard]] schema::Result<void> verify_search(store::Store& store);

}  // namespace driftgate::evidence
