#include "daemon/store/promotions/redactions.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kDeleteBlob{"delete blob", "DELETE FROM blobs WHERE digest = ?1"};
constexpr Sql kDeleteStates{"delete stream states", "DELETE FROM stream_states WHERE promotion = ?1"};

}  // namespace

Result<bool> delete_blob(Tx& tx, std::string_view digest) {
  auto changed = TRY(tx.run(kDeleteBlob, {digest}));
  return changed > 0;
}

Result<std::int64_t> delete_stream_states(Tx& tx, std::string_view promotion) {
  return tx.run(kDeleteStates, {promotion});
}

}  // namespace driftgate::store
