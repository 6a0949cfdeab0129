#include "daemon/jobs/stored_hashes.hpp"

#include "daemon/store/file_hashes.hpp"
#include "daemon/store/look_up.hpp"

namespace driftgate::jobs {
namespace {

store::FileHashRow row_of(const FileIdentity& identity) {
  return {.device = identity.device,
          .inode = identity.inode,
          .bytes = identity.bytes,
          .mtime_ns = identity.mtime_ns,
          .ctime_ns = identity.ctime_ns};
}

}  // namespace

/// What cannot be read is hashed again.
std::optional<std::string> StoredHashes::find(const FileIdentity& identity) {
  auto found = look_up(store_, store::find_file_hash, row_of(identity));
  if (!found || !*found) return std::nullopt;
  return (*found)->sha256;
}

schema::Result<void> StoredHashes::put(const std::vector<std::pair<FileIdentity, std::string>>& hashes) {
  const auto now_us = now_us_();
  return store_.write("remember file hashes", [&](store::Tx& tx) -> schema::Result<void> {
    for (const auto& [identity, sha256] : hashes) {
      auto row = row_of(identity);
      row.sha256 = sha256;
      row.hashed_us = now_us;
      TRY(store::put_file_hash(tx, row));
    }
    TRY(store::trim_file_hashes(tx));
    return {};
  });
}

}  // namespace driftgate::jobs
