#include "daemon/route/http/json_scan.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "daemon/base/ascii.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kUnicodeEscape = 6;    // \u00e4
constexpr std::size_t kSurrogatePair = 12;   // \ud83d\ude00
constexpr std::int64_t kSafeExponent = 307;  // a number below 10^308 never overflows a double

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0u) == 0x80u;
}

/// The first byte from `at` on that ends or interrupts a run of plain ASCII within a string: a quote, a
/// backslash, a control character, or a byte of another character.
const char* after_plain(const char* at, const char* end) {
#ifdef __SSE2__
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i blank = _mm_set1_epi8(' ');
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
    // The comparison is signed, so that bytes from 0x80 on are below the blank too.
    const __m128i stops = _mm_or_si128(ends, _mm_cmplt_epi8(bytes, blank));
    const auto mask = static_cast<std::uint32_t>(_mm_movemask_epi8(stops));
    if (mask != 0) return at + std::countr_zero(mask);
  }
#endif
  return std::find_if(at, end, [](char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return byte == '"' || byte == '\\' || code < 0x20 || code >= 0x80;
  });
}

/// Bytes of the character of two or more bytes that `text` begins with; 0 when it is not well-formed UTF-8.
std::size_t character_bytes(std::string_view text) {
  const unsigned lead = static_cast<unsigned char>(text[0]);
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
  const unsigned second = static_cast<unsigned char>(text[1]);
  // No longer form than needed, no surrogates, nothing above U+10FFFF.
  const unsigned least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (second < least || second > most) return 0;
  const auto rest = text.substr(2, size - 2);
  return std::ranges::all_of(rest, is_continuation) ? size : 0;
}

/// The code unit of a `\uXXXX` that `text` begins with.
std::optional<std::uint32_t> code_unit(std::string_view text) {
  if (text.size() < kUnicodeEscape || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  std::uint32_t unit = 0;
  const auto digits = text.substr(2, 4);
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
  if (error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return unit;
}

bool is_high_surrogate(std::uint32_t unit) {
  return unit >= 0xd800 && unit <= 0xdbff;
}

bool is_low_surrogate(std::uint32_t unit) {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/// Bytes of the escape sequence that `text` begins with, a pair of surrogates as one; 0 when it is none.
std::size_t escape_bytes(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] != 'u') return std::string_view("\"\\/bfnrt").contains(text[1]) ? 2 : 0;
  const auto unit = code_unit(text);
  if (!unit || is_low_surrogate(*unit)) return 0;
  if (!is_high_surrogate(*unit)) return kUnicodeEscape;
  const auto second = code_unit(text.substr(kUnicodeEscape));
  return second && is_low_surrogate(*second) ? kSurrogatePair : 0;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80u | ((code >> shift) & 0x3fu)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0u | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0u | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0u | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// What a valid escape sequence of two bytes means.
char plain_escape(char letter) {
  switch (letter) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return letter;  // a quote, a backslash, a slash
  }
}

/// A number of the form that JSON allows, split where its size can be seen.
struct ReadNumber {
  std::string_view whole;     ///< digits before the point
  std::string_view fraction;  ///< digits behind it
  std::int64_t exponent = 0;  ///< far too large ones are cut
};

/// The power of ten of the first digit that is not 0, plus one; the number is below ten to that power.
std::int64_t magnitude(const ReadNumber& number) {
  const auto first = number.whole.find_first_not_of('0');
  if (first != std::string_view::npos)
    return static_cast<std::int64_t>(number.whole.size() - first) + number.exponent;
  const auto behind = number.fraction.find_first_not_of('0');
  if (behind == std::string_view::npos) return 0;
  return number.exponent - static_cast<std::int64_t>(behind);
}

/// False for a number that overflows a double. `text` is what `number` was read from.
bool is_finite(std::string_view text, const ReadNumber& number) {
  // The common case without a look at the digits.
  if (static_cast<std::int64_t>(number.whole.size()) + number.exponent <= kSafeExponent) return true;
  const auto power = magnitude(number);
  if (power <= kSafeExponent) return true;
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && std::isfinite(value);
}

class Scanner {
 public:
  Scanner(std::string_view source, JsonEvents& events)
      : at_(source.data()), end_(source.data() + source.size()), events_(events) {}

  bool document() {
    if (!value()) return false;
    while (depth_ > 0) {
      if (!element()) return false;
    }
    skip_blanks();
    return at_ == end_;
  }

 private:
  [[nodiscard]] std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }

  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  bool take(char wanted) {
    skip_blanks();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }

  /// What comes next in the innermost container: its end, or one more value.
  bool element() {
    const bool first = std::exchange(opened_, false);
    const bool array = (arrays_ & 1u) != 0;
    if (take(array ? ']' : '}')) {
      --depth_;
      arrays_ >>= 1;
      events_.end();
      return true;
    }
    if (!first && !take(',')) return false;
    return (array || key()) && value();
  }

  bool key() {
    if (!take('"')) return false;
    JsonText name;
    return text(name) && events_.key(name) && take(':');
  }

  bool value() {
    skip_blanks();
    if (at_ == end_) return false;
    switch (*at_) {
      case '"': {
        ++at_;
        JsonText found;
        return text(found) && events_.string(found);
      }
      case '{':
        return open(false) && events_.begin_object();
      case '[':
        return open(true) && events_.begin_array();
      case 't':
        return literal("true") && events_.boolean(true);
      case 'f':
        return literal("false") && events_.boolean(false);
      case 'n':
        return literal("null") && events_.null();
      default:
        return number();
    }
  }

  bool open(bool array) {
    ++at_;
    if (depth_ == kMaxJsonDepth) return false;
    ++depth_;
    arrays_ = (arrays_ << 1) | (array ? 1u : 0u);
    opened_ = true;
    return true;
  }

  bool literal(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  /// A string whose opening quote was taken.
  bool text(JsonText& found) {
    const char* const begin = at_;
    std::size_t within = 0;  // bytes that are not the first one of their character
    for (;;) {
      at_ = after_plain(at_, end_);
      if (at_ == end_) return false;
      if (*at_ == '"') break;
      if (static_cast<unsigned char>(*at_) >= 0x80) {
        if (!characters(within)) return false;
        continue;
      }
      const auto size = *at_ == '\\' ? escape_bytes(rest()) : 0;  // no control characters
      if (size == 0) return false;
      found.escaped = true;
      within += size - 1;
      at_ += size;
    }
    found.raw = {begin, static_cast<std::size_t>(at_ - begin)};
    found.code_points = found.raw.size() - within;
    ++at_;
    return true;
  }

  /// Characters of several bytes, as many as stand here in a row.
  bool characters(std::size_t& within) {
    do {
      const auto size = character_bytes(rest());
      if (size == 0) return false;
      within += size - 1;
      at_ += size;
    } while (at_ != end_ && static_cast<unsigned char>(*at_) >= 0x80);
    return true;
  }

  std::string_view digits() {
    const char* const begin = at_;
    while (at_ != end_ && base::is_digit(*at_)) ++at_;
    return {begin, static_cast<std::size_t>(at_ - begin)};
  }

  bool number() {
    const char* const begin = at_;
    if (*at_ == '-') ++at_;
    ReadNumber read;
    read.whole = digits();
    if (read.whole.empty() || (read.whole.size() > 1 && read.whole.front() == '0')) return false;
    if (at_ != end_ && *at_ == '.') {
      ++at_;
      read.fraction = digits();
      if (read.fraction.empty()) return false;
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      if (!exponent(read)) return false;
    }
    const std::string_view found(begin, static_cast<std::size_t>(at_ - begin));
    return is_finite(found, read) && events_.number(found);
  }

  bool exponent(ReadNumber& read) {
    constexpr std::int64_t kFar = std::int64_t{1} << 40;  // more digits than a text has
    const bool negative = at_ != end_ && *at_ == '-';
    if (at_ != end_ && (*at_ == '-' || *at_ == '+')) ++at_;
    const auto power = digits();
    for (const char digit : power) read.exponent = std::min(kFar, read.exponent * 10 + (digit - '0'));
    if (negative) read.exponent = -read.exponent;
    return !power.empty();
  }

  const char* at_;
  const char* const end_;
  JsonEvents& events_;
  std::uint64_t arrays_ = 0;  ///< which of the open containers are arrays, the innermost in the lowest bit
  int depth_ = 0;
  bool opened_ = false;  ///< the innermost container was opened just now
};

}  // namespace

std::string JsonText::decoded() const {
  std::string out;
  if (!escaped) {
    out = raw;
    return out;
  }
  out.reserve(raw.size());
  for (auto rest = raw; !rest.empty();) {
    const auto plain = rest.substr(0, rest.find('\\'));
    out += plain;
    rest.remove_prefix(plain.size());
    if (rest.empty()) break;
    const auto size = escape_bytes(rest);
    if (size == 2) {
      out += plain_escape(rest[1]);
    } else if (size == kUnicodeEscape) {
      append_utf8(out, code_unit(rest).value_or(0));
    } else {
      const auto high = code_unit(rest).value_or(0) - 0xd800;
      const auto low = code_unit(rest.substr(kUnicodeEscape)).value_or(0) - 0xdc00;
      append_utf8(out, 0x10000 + ((high << 10) | low));
    }
    rest.remove_prefix(size);
  }
  return out;
}

bool JsonText::is(std::string_view text) const {
  if (!escaped) return raw == text;
  return raw.size() <= kUnicodeEscape * text.size() && decoded() == text;
}

bool scan_json(std::string_view text, JsonEvents& events) {
  return Scanner(text, events).document();
}

}  // namespace driftgate::route
