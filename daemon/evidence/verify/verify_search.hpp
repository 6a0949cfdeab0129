#pragma once

#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

/// Whether entries are found by what they say: the columns beside each entry's bytes, the index of promotions
/// and the blocks of the index are compared with the entries themselves. A damaged one would hide entries
/// from queries while the log itself verifies (verify_log). `corrupt` names the first difference.
[[nodiscard]] schema::Result<void> verify_search(store::Store& store);

}  // namespace driftgate::evidence
