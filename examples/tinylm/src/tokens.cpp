#include "examples/tinylm/src/tokens.hpp"

#include <algorithm>

#include "examples/tinylm/src/model.hpp"

namespace tinylm {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Scan {
  std::size_t length;  ///< bytes of the valid sequence, or of its valid beginning
  bool valid, could_continue;
};

// Table 3-7 of the Unicode standard: well-formed UTF-8 byte sequences.
Scan scan(std::string_view rest) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  for (std::size_t i = 1; i < size; ++i) {
    if (i == rest.size()) return {i, false, true};
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;
    if (i == 1 && lead == 0xED) high = 0x9F;
    if (i == 1 && lead == 0xF0) low = 0x90;
    if (i == 1 && lead == 0xF4) high = 0x8F;
    if (byte(i) < low || byte(i) > high) return {1, false, false};
  }
  return {size, true, false};
}

}  // namespace

std::string token_string(std::int32_t token) {
  if (token == kBos) return "<s>";
  if (token < 0x80) return std::string(1, static_cast<char>(token));
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<std::size_t>(token);
  return std::string("bytes:\\x") + kHex[byte >> 4U] + kHex[byte & 15U];
}

std::string bytes_of(std::span<const std::int32_t> tokens) {
  std::string bytes;
  for (const std::int32_t token : tokens)
    if (token != kBos) bytes += static_cast<char>(token);
  return bytes;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Scan found = scan(bytes);
    const std::size_t used = found.valid ? found.length : 1;
    text += found.valid ? bytes.substr(0, used) : kReplacement;
    bytes.remove_prefix(used);
  }
  return text;
}

std::size_t complete_prefix(std::string_view bytes) {
  const std::size_t look = std::min<std::size_t>(bytes.size(), 3);
  for (std::size_t back = look; back > 0; --back) {
    const auto tail = bytes.substr(bytes.size() - back);
    if ((static_cast<unsigned char>(tail[0]) & 0xC0U) != 0xC0U) continue;
    if (scan(tail).could_continue) return bytes.size() - back;
  }
  return bytes.size();
}

}  // namespace tinylm
