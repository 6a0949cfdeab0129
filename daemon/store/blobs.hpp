#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

inline constexpr std::size_t kMaxBlobBytes = 32u << 20;

struct BlobRow {
  std::string digest{};  ///< "sha256:…" of `bytes`
  std::string media_type{};
  std::string bytes{};
  std::int64_t created_us = 0;
  bool operator==(const BlobRow&) const = default;
};

/// Stores bytes under their digest, which is returned; the same bytes again change nothing.
/// `limit_exceeded` above kMaxBlobBytes.
Result<std::string> put_blob(Tx& tx, std::string_view bytes, std::string_view media_type,
                             std::int64_t now_us);
/// `corrupt` when the stored bytes no longer have that digest.
Result<std::optional<BlobRow>> find_blob(Reader& reader, std::string_view digest);
/// Whether a blob with that digest is stored. Reads none of its bytes.
Result<bool> has_blob(Reader& reader, std::string_view digest);

}  // namespace driftgate::store
