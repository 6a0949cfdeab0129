#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::base {

/// What an engine asks for beside its address, as the files that hold it. The key itself stays in its file:
/// it is read where a request is made, and nothing keeps or tells it.
struct EngineAccess {
  std::string key_file{};    ///< absolute path; empty: the engine asks for no key
  std::string key_header{};  ///< the header that is the key; empty: "Authorization: Bearer KEY"
  std::string ca_file{};     ///< absolute path of the CAs (PEM) to trust; empty: the system's list
  [[nodiscard]] bool any() const { return !key_file.empty() || !ca_file.empty(); }
  bool operator==(const EngineAccess&) const = default;
};

/// The header that shows a key.
struct KeyField {
  std::string name{};
  std::string value{};
};

/// The header with the key, nothing when the engine asks for none. Reads the file: `io` when it cannot be
/// read, `forbidden` when others than its owner may read it, `invalid_document` when it holds no key. No
/// message has a byte of the file.
[[nodiscard]] schema::Result<std::optional<KeyField>> read_key(const EngineAccess& access);

/// The CAs of a file as text. `io`, `limit_exceeded`.
[[nodiscard]] schema::Result<std::string> read_ca_file(const std::string& path);

/// `invalid_argument` for a name that cannot be the header of a key: a header that frames, routes or
/// describes a message, one of driftgate's own, or none.
[[nodiscard]] schema::Result<void> check_key_header(std::string_view name);

/// The absolute path of a file below `folder`, named by a path relative to it or by an absolute one. Symbolic
/// links may not lead out of the folder. `forbidden` when it lies elsewhere, `not_found`, `io`.
[[nodiscard]] schema::Result<std::string> file_below(const std::string& folder, const std::string& name);

}  // namespace driftgate::base
