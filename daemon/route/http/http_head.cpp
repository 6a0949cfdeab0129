#include "daemon/route/http/http_head.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "daemon/base/ascii.hpp"
#include "daemon/base/authority.hpp"
#include "daemon/base/http_text.hpp"
#include "daemon/limits/header_names.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kMaxLengthDigits = 15;  // keeps lengths below 2^53
constexpr std::size_t kUsualFields = 16;

/// What a byte may stand in; bits.
constexpr std::uint8_t kValueByte = 1;
constexpr std::uint8_t kTokenByte = 2;
constexpr std::uint8_t kPlainNameByte = 4;  ///< limits::is_plain_header_name

constexpr std::array<std::uint8_t, 256> kPlaces = [] {
  std::array<std::uint8_t, 256> places{};
  for (std::size_t code = 0; code < places.size(); ++code) {
    const char byte = static_cast<char>(static_cast<unsigned char>(code));
    unsigned bits = 0;
    if (code == '\t' || (code >= 0x20 && code != 0x7f)) bits |= kValueByte;
    if (base::is_alphanumeric(byte, "!#$%&'*+-.^_`|~")) bits |= kTokenByte;
    if (base::is_alphanumeric(byte, "-")) bits |= kPlainNameByte;
    places[code] = static_cast<std::uint8_t>(bits);
  }
  return places;
}();

unsigned places_of(char byte) {
  return kPlaces[static_cast<unsigned char>(byte)];
}

/// Where all bytes of the text may stand; nowhere for "".
unsigned common_places(std::string_view text) {
  unsigned places = text.empty() ? 0 : ~0u;
  for (const char byte : text) places &= places_of(byte);
  return places;
}

std::unexpected<schema::Error> bad(const char* why) {
  return schema::fail(schema::ErrorCode::invalid_argument, why);
}

/// Bytes of the text before the first one that no head may have in a line.
std::size_t allowed_bytes(std::string_view text) {
  std::size_t size = 0;
#ifdef __SSE2__
  while (text.size() - size >= 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + size));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    const __m128i stops = _mm_or_si128(control, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f)));
    const auto mask = static_cast<std::uint32_t>(_mm_movemask_epi8(stops));
    if (mask == 0) {
      size += 16;
      continue;
    }
    size += static_cast<std::size_t>(std::countr_zero(mask));
    if (text[size] != '\t') return size;
    ++size;
  }
#endif
  while (size < text.size() && (places_of(text[size]) & kValueByte) != 0) ++size;
  return size;
}

/// The next line with its CRLF; nothing when a byte in it is not allowed in any head.
std::optional<std::string_view> take_whole_line(std::string_view& rest) {
  const auto size = allowed_bytes(rest);
  if (!rest.substr(size).starts_with("\r\n")) return std::nullopt;
  const auto line = rest.substr(0, size + 2);
  rest.remove_prefix(size + 2);
  return line;
}

/// The same without the CRLF.
std::optional<std::string_view> take_line(std::string_view& rest) {
  auto line = take_whole_line(rest);
  if (line) line->remove_suffix(2);
  return line;
}

bool take_version(std::string_view text, int& minor) {
  if (text != "HTTP/1.1" && text != "HTTP/1.0") return false;
  minor = text.back() - '0';
  return true;
}

schema::Result<void> note_length(HeadFields& head, std::string_view value) {
  std::uint64_t length = 0;
  const auto* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, length);
  if (value.empty() || value.size() > kMaxLengthDigits || error != std::errc() || stop != end) {
    return bad("Content-Length is not a number");
  }
  if (head.content_length) return bad("more than one Content-Length");
  head.content_length = length;
  return {};
}

schema::Result<void> note_field(HeadFields& head, const HeadField& field) {
  if (field.kind == FieldKind::content_length) return note_length(head, field.value);
  if (field.kind == FieldKind::transfer_encoding) {
    if (head.chunked || !base::equal_ignoring_case(field.value, "chunked")) {
      return bad("Transfer-Encoding must be a single 'chunked'");
    }
    head.chunked = true;
  } else if (field.kind == FieldKind::connection) {
    if (base::list_has(field.value, "close")) head.keep_alive = false;
    if (head.minor_version == 0 && base::list_has(field.value, "keep-alive")) head.keep_alive = true;
  }
  return {};
}

schema::Result<void> parse_fields(HeadFields& head, std::string_view rest) {
  head.keep_alive = head.minor_version == 1;
  head.fields.reserve(kUsualFields);
  for (;;) {
    const auto line = take_whole_line(rest);
    if (!line) return bad("a header line has a control character or no end");
    if (line->size() == 2) break;
    if (head.fields.size() == kMaxHeadFields) return bad("too many header fields");
    const auto colon = line->find(':');
    const auto name = line->substr(0, colon);
    const unsigned places = common_places(name);
    if (colon == std::string_view::npos || (places & kTokenByte) == 0) {
      return bad("a header line is folded, or has no name or a space before its colon");
    }
    const auto value = base::trimmed(line->substr(colon + 1, line->size() - colon - 3));
    head.fields.push_back({name, value, *line, kind_of_field(name), (places & kPlainNameByte) != 0});
    TRY(note_field(head, head.fields.back()));
  }
  if (!rest.empty()) return bad("unexpected bytes after the head");
  if (head.chunked && head.content_length)
    return bad("Transfer-Encoding and Content-Length together are not allowed");
  if (head.chunked && head.minor_version == 0) return bad("Transfer-Encoding is not allowed in HTTP/1.0");
  return {};
}

}  // namespace

FieldKind kind_of_field(std::string_view name) {
  const auto is = [name](std::string_view known) { return base::equal_ignoring_case(known, name); };
  switch (name.size()) {
    case 2:
      if (is("te")) return FieldKind::hop_by_hop;
      break;
    case 3:
      if (is("via")) return FieldKind::via;
      break;
    case 4:
      if (is("host")) return FieldKind::host;
      break;
    case 6:
      if (is("expect")) return FieldKind::expect;
      break;
    case 7:
      if (is("trailer") || is("upgrade")) return FieldKind::hop_by_hop;
      break;
    case 10:
      if (is("connection")) return FieldKind::connection;
      if (is("keep-alive")) return FieldKind::hop_by_hop;
      break;
    case 14:
      if (is("content-length")) return FieldKind::content_length;
      break;
    case 15:
      if (is("accept-encoding")) return FieldKind::accept_encoding;
      break;
    case 16:
      if (is("proxy-connection")) return FieldKind::hop_by_hop;
      break;
    case 17:
      if (is("transfer-encoding")) return FieldKind::transfer_encoding;
      break;
    case 18:
      if (is("proxy-authenticate")) return FieldKind::hop_by_hop;
      break;
    case 19:
      if (is("proxy-authorization")) return FieldKind::hop_by_hop;
      break;
    default:
      break;
  }
  constexpr std::string_view kOwn = "driftgate-";
  const bool own = base::equal_ignoring_case(name.substr(0, kOwn.size()), kOwn);
  return own ? FieldKind::driftgate : FieldKind::other;
}

std::optional<std::string_view> HeadFields::find(std::string_view name) const {
  for (const auto& field : fields) {
    if (base::equal_ignoring_case(field.name, name)) return field.value;
  }
  return std::nullopt;
}

HeadScan scan_head(std::string_view bytes, std::size_t from, std::size_t& end) {
  auto feed = bytes.find('\n', from);
  for (; feed != std::string_view::npos; feed = bytes.find('\n', feed + 1)) {
    if (feed == 0 || bytes[feed - 1] != '\r') return HeadScan::bad;
    if (feed == 1 || (feed >= 3 && bytes[feed - 2] == '\n')) {
      end = feed + 1;
      return HeadScan::complete;
    }
  }
  return HeadScan::incomplete;
}

schema::Result<RequestHead> parse_request_head(std::string_view text) {
  RequestHead head;
  const auto line = take_line(text);
  if (!line) return bad("the request line has a control character or no end");
  const auto first = line->find(' ');
  const auto last = line->rfind(' ');
  if (first == std::string_view::npos || first == last)
    return bad("the request line is not METHOD TARGET VERSION");
  head.method = line->substr(0, first);
  head.target = line->substr(first + 1, last - first - 1);
  if (!base::is_token(head.method)) return bad("the method is not a token");
  const auto visible = [](char byte) { return byte > ' ' && byte < 0x7f; };
  if (!head.target.starts_with('/') || !std::ranges::all_of(head.target, visible)) {
    return bad("the target must be a path that begins with '/'");
  }
  if (!take_version(line->substr(last + 1), head.minor_version))
    return bad("the version is not HTTP/1.1 or HTTP/1.0");
  TRY(parse_fields(head, text));
  for (const auto& field : head.fields) {
    if (field.plain_name) continue;
    if (const auto read_as = limits::disguised_header(field.name))
      return schema::failf(schema::ErrorCode::invalid_argument,
                           "a header name could be read as '{}': spell it with dashes", *read_as);
  }
  const auto hosts = std::ranges::count(head.fields, FieldKind::host, &HeadField::kind);
  if (hosts > 1 || (hosts == 0 && head.minor_version == 1)) return bad("exactly one Host header is required");
  const auto host = std::ranges::find(head.fields, FieldKind::host, &HeadField::kind);
  if (hosts == 1 && !base::is_host(host->value))
    return bad("the Host header is not a host, with or without a port");
  if (const auto expect = head.find("expect")) {
    if (!base::equal_ignoring_case(*expect, "100-continue"))
      return bad("only 'Expect: 100-continue' is supported");
    head.expects_continue = head.minor_version == 1;
  }
  return head;
}

schema::Result<ResponseHead> parse_response_head(std::string_view text) {
  ResponseHead head;
  const auto line = take_line(text);
  if (!line || line->size() < 12 || !take_version(line->substr(0, 8), head.minor_version) ||
      (*line)[8] != ' ') {
    return bad("the status line is not HTTP/1.x STATUS REASON");
  }
  const auto digits = line->substr(9, 3);
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + 3, head.status);
  if (error != std::errc() || stop != digits.data() + 3 || head.status < 100 ||
      (line->size() > 12 && (*line)[12] != ' ')) {
    return bad("the status is not three digits");
  }
  if (line->size() > 13) head.reason = line->substr(13);
  TRY(parse_fields(head, text));
  return head;
}

std::string_view named_by_connection(const HeadFields& head) {
  const auto value = head.find("connection").value_or("");
  return base::equal_ignoring_case(value, "keep-alive") ? std::string_view() : value;
}

bool hop_by_hop(const HeadField& field, std::string_view connection) {
  switch (field.kind) {
    case FieldKind::connection:
    case FieldKind::transfer_encoding:
    case FieldKind::expect:
    case FieldKind::hop_by_hop:
      return true;
    default:
      return !connection.empty() && base::list_has(connection, field.name);
  }
}

}  // namespace driftgate::route
