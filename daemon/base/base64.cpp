#include "daemon/base/base64.hpp"

#include <cstdint>

namespace driftgate::base {

namespace {
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<std::uint8_t>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const bool padding = at + i > bytes.size();
      text += padding ? '=' : kAlphabet[bits >> (18 - 6 * i) & 63];
    }
  }
  return text;
}

schema::Result<std::string> from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const auto value = kAlphabet.find(c);
    if (value == kAlphabet.npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xff);
  }
  // Writing it again refuses bad characters, padding and left-over bits at once.
  if (to_base64(bytes) != text) return schema::fail(schema::ErrorCode::invalid_argument, "not base 64");
  return bytes;
}

}  // namespace driftgate::base
