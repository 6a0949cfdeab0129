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

}  // namespace driftgate::evidence
