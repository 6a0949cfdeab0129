#include "daemon/store/file_hashes.hpp"

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kPut{"put file hash",
                   "INSERT INTO file_hashes(device, inode, bytes, mtime_ns, ctime_ns, sha256, hashed_us) "
                   "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(device, inode) DO UPDATE SET bytes = ?3, "
                   "mtime_ns = ?4, ctime_ns = ?5, sha256 = ?6, hashed_us = ?7"};
constexpr Sql kFind{"find file hash",
                    "SELECT device, inode, bytes, mtime_ns, ctime_ns, sha256, hashed_us FROM file_hashes "
                    "WHERE device = ?1 AND inode = ?2 AND bytes = ?3 AND mtime_ns = ?4 AND ctime_ns = ?5"};
constexpr Sql kTrim{"trim file hashes",
                    "DELETE FROM file_hashes WHERE rowid IN (SELECT rowid FROM file_hashes "
                    "ORDER BY hashed_us DESC, rowid DESC LIMIT -1 OFFSET ?1)"};

}  // namespace

Result<void> put_file_hash(Tx& tx, const FileHashRow& row) {
  return explain(
      tx.run(kPut, {row.device, row.inode, row.bytes, row.mtime_ns, row.ctime_ns, row.sha256, row.hashed_us}),
      "cannot store the hash of a file");
}

Result<std::optional<FileHashRow>> find_file_hash(Reader& reader, const FileHashRow& identity) {
  return find_row<FileHashRow>(
      reader, kFind, {identity.device, identity.inode, identity.bytes, identity.mtime_ns, identity.ctime_ns});
}

Result<std::int64_t> trim_file_hashes(Tx& tx, std::int64_t keep) {
  return tx.run(kTrim, {keep});
}

}  // namespace driftgate::store
