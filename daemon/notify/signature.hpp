#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::notify {

/// The secret of one endpoint, as Standard Webhooks writes it: "whsec_" and base64 of 24 to 64 bytes.
class Secret {
 public:
  /// `invalid_argument` for anything else; the message never holds the text.
  [[nodiscard]] static schema::Result<Secret> parse(std::string_view text);

  /// The value of the header `webhook-signature` (Standard Webhooks 1.0): "v1," and base64 of
  /// HMAC-SHA-256 over "ID.TIMESTAMP.BODY".
  [[nodiscard]] std::string sign(std::string_view message_id, std::int64_t timestamp_s,
                                 std::string_view body) const;

 private:
  explicit Secret(std::string key) : key_(std::move(key)) {}
  std::string key_;
};

/// Reads a file that holds one secret and nothing else but white space at its end.
[[nodiscard]] schema::Result<Secret> load_secret(const std::string& path);

}  // namespace driftgate::notify
