#include "daemon/store/blobs.hpp"

#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"
#include "schema/sha256.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kPut{"put blob",
                   "INSERT INTO blobs(digest, media_type, bytes, created_us) VALUES(?1, ?2, ?3, ?4) "
                   "ON CONFLICT(digest) DO NOTHING"};
constexpr Sql kFind{"find blob", "SELECT digest, media_type, bytes, created_us FROM blobs WHERE digest = ?1"};
constexpr Sql kHas{"has blob", "SELECT 1 FROM blobs WHERE digest = ?1"};

}  // namespace

Result<std::string> put_blob(Tx& tx, std::string_view bytes, std::string_view media_type,
                             std::int64_t now_us) {
  if (bytes.size() > kMaxBlobBytes) {
    return schema::failf(ErrorCode::limit_exceeded,
                         "a blob of {} bytes is too large: at most {} bytes are stored", bytes.size(),
                         kMaxBlobBytes);
  }
  std::string digest = schema::sha256_digest(bytes);
  TRY(tx.run(kPut, {digest, media_type, Blob{bytes}, now_us}));
  return digest;
}

Result<std::optional<BlobRow>> find_blob(Reader& reader, std::string_view digest) {
  auto found = TRY(find_row<BlobRow>(reader, kFind, {digest}));
  if (found && schema::sha256_digest(found->bytes) != digest) {
    return schema::failf(ErrorCode::corrupt, "blob {} no longer has that digest: restore a backup", digest);
  }
  return found;
}

Result<bool> has_blob(Reader& reader, std::string_view digest) {
  const auto found = TRY(find_row<std::int64_t>(reader, kHas, {digest}));
  return found.has_value();
}

}  // namespace driftgate::store
