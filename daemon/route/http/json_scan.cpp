#include "daemon/route/http/json_scan.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
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

bool is_blank(char byte) {
  if (static_cast<unsigned char>(byte) > ' ') return false;  // as most are
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0u) == 0x80u;
}

/// A byte that ends or interrupts a run of plain characters within a string: a quote, a backslash, a control
/// character.
bool is_stop(char byte) {
  return byte == '"' || byte == '\\' || static_cast<unsigned char>(byte) < 0x20;
}

/// The first stop from `at` on, or `end`.
const char* next_stop(const char* at, const char* end) {
#ifdef __SSE2__
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i ends =
        _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    const auto stops = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_or_si128(ends, control)));
    if (stops != 0) return at + std::countr_zero(stops);
  }
#endif
  return std::find_if(at, end, is_stop);
}

/// The first byte from `at` on that is not ASCII, or `end`.
const char* next_beyond_ascii(const char* at, const char* end) {
#ifdef __SSE2__
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const auto beyond = static_cast<std::uint32_t>(_mm_movemask_epi8(bytes));
    if (beyond != 0) return at + std::countr_zero(beyond);
  }
#endif
  return std::find_if(at, end, [](char byte) { return static_cast<unsigned char>(byte) >= 0x80; });
}

/// Bytes of the character of two or more bytes that `text` begins with; 0 when it is not well-formed UTF-8.
std::size_t character_bytes(std::string_view text) {
  const unsigned lead = static_cast<unsigned char>(text[0]);
  if (lead >= 0xc2 && lead < 0xe0 && text.size() >= 2 && is_continuation(text[1])) return 2;
  const std::size_t size = lead >= 0xf0 ? 4 : 3;
  if (lead < 0xe0 || lead > 0xf4 || text.size() < size) return 0;
  const unsigned second = static_cast<unsigned char>(text[1]);
  // No longer form than needed, no surrogates, nothing above U+10FFFF.
  const unsigned least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (second < least || second > most) return 0;
  const auto rest = text.substr(2, size - 2);
  return std::ranges::all_of(rest, is_continuation) ? size : 0;
}

/// Bytes of well-formed UTF-8 that are not the first one of their character.
std::size_t continuations(std::string_view text) {
  std::size_t count = 0;
#ifdef __SSE2__
  __m128i sums = _mm_setzero_si128();
  for (; text.size() >= 16; text.remove_prefix(16)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data()));
    // As signed numbers these bytes, 0x80 to 0xbf, are the lowest ones. Each true is -1.
    const __m128i found = _mm_cmplt_epi8(bytes, _mm_set1_epi8(-64));
    const __m128i ones = _mm_sub_epi8(_mm_setzero_si128(), found);
    sums = _mm_add_epi64(sums, _mm_sad_epu8(ones, _mm_setzero_si128()));
  }
  count = static_cast<std::size_t>(_mm_cvtsi128_si64(sums)) +
          static_cast<std::size_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums)));
#endif
  return count + static_cast<std::size_t>(std::ranges::count_if(text, is_continuation));
}

bool is_well_formed_utf8(const char* at, const char* end) {
  while ((at = next_beyond_ascii(at, end)) != end) {
    const auto size = character_bytes({at, static_cast<std::size_t>(end - at)});
    if (size == 0) return false;
    at += size;
  }
  return true;
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

/// The letters that follow a backslash in an escape sequence of two bytes.
constexpr auto kEscapeLetters = [] {
  std::array<bool, 256> known{};
  for (const char letter : std::string_view("\"\\/bfnrt")) known[static_cast<unsigned char>(letter)] = true;
  return known;
}();

/// Bytes of the escape sequence that `text` begins with, a pair of surrogates as one; 0 when it is none.
std::size_t escape_bytes(std::string_view text) {
  if (text.size() < 2) return 0;
  if (kEscapeLetters[static_cast<unsigned char>(text[1])]) return 2;
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
    if (!is_well_formed_utf8(at_, end_)) return false;
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
    while (at_ != end_ && is_blank(*at_)) ++at_;
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
    const char* at = begin;
    for (;;) {
      at = next_stop(at, end_);
      if (at == end_) return false;
      if (*at == '"') break;
      if (*at != '\\') return false;
      const auto size = escape_bytes({at, static_cast<std::size_t>(end_ - at)});
      if (size == 0) return false;
      found.escapes += size - 1;
      at += size;
    }
    found.raw = {begin, static_cast<std::size_t>(at - begin)};
    at_ = at + 1;
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

std::size_t JsonText::code_points() const {
  return raw.size() - escapes - continuations(raw);
}

std::string JsonText::decoded() const {
  std::string out;
  if (escapes == 0) {
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

bool JsonText::means(std::string_view text) const {
  return raw.size() <= kUnicodeEscape * text.size() && decoded() == text;
}

bool scan_json(std::string_view text, JsonEvents& events) {
  return Scanner(text, events).document();
}

}  // namespace driftgate::route
