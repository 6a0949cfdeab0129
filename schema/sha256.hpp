#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schema {

using Sha256Bytes = std::array<std::uint8_t, 32>;

/// Incremental SHA-256 (FIPS 180-4) by OpenSSL. Move-only. After `finish` the object is ready for another
/// message.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::string_view bytes);
  Sha256& update(std::span<const std::uint8_t> bytes);
  [[nodiscard]] Sha256Bytes finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// SHA-256 of `bytes` in one call.
[[nodiscard]] Sha256Bytes sha256(std::string_view bytes);

/// "sha256:" and 64 lower-case hex digits, the form in which documents, blobs and manifests are named.
[[nodiscard]] std::string digest_text(const Sha256Bytes& digest);

/// `digest_text(sha256(bytes))`.
[[nodiscard]] std::string sha256_digest(std::string_view bytes);

/// The inverse of `digest_text`. Error: `invalid_argument`.
[[nodiscard]] Result<Sha256Bytes> parse_digest(std::string_view text);

/// Lower-case hex, two digits for each byte.
[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);

/// The bytes of lower-case hex. Error: `invalid_argument` for an odd length, upper case or any other
/// character.
[[nodiscard]] Result<std::string> from_hex(std::string_view hex);

/// A view of the 32 bytes of a digest, for storage. It is valid as long as `digest` is.
[[nodiscard]] std::string_view as_chars(const Sha256Bytes& digest);

}  // namespace driftgate::schema
