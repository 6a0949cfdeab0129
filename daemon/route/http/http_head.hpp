#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::route {

inline constexpr std::size_t kMaxRequestHeadBytes = 16u << 10;
inline constexpr std::size_t kMaxResponseHeadBytes = 64u << 10;
inline constexpr std::size_t kMaxHeadFields = 100;

/// What a header field is to a proxy, by its name.
enum class FieldKind : std::uint8_t {
  other,
  host,
  content_length,
  accept_encoding,
  expect,
  via,
  connection,
  transfer_encoding,
  hop_by_hop,  ///< another one that concerns one connection only
  driftgate,   ///< begins with "driftgate-"
};

/// One header field; the value without the blanks around it. Views into the head.
struct HeadField {
  std::string_view name;
  std::string_view value;
  std::string_view line;  ///< the whole line with its end
  FieldKind kind = FieldKind::other;
  bool plain_name = true;  ///< limits::is_plain_header_name
};

/// `name` in any case.
[[nodiscard]] FieldKind kind_of_field(std::string_view name);

/// What both kinds of head share.
struct HeadFields {
  int minor_version = 1;  ///< of HTTP/1
  std::vector<HeadField> fields;
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;

  /// The value of the first field of that name, or nothing.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
};

struct RequestHead : HeadFields {
  std::string_view method;
  std::string_view target;  ///< origin form, begins with '/'
  bool expects_continue = false;
  /// The target without its query.
  [[nodiscard]] std::string_view path() const { return target.substr(0, target.find('?')); }
};

struct ResponseHead : HeadFields {
  int status = 0;
  std::string_view reason;
  /// False for answers that never have a body (1xx, 204, 304).
  [[nodiscard]] bool may_have_body() const { return status >= 200 && status != 204 && status != 304; }
};

enum class HeadScan : std::uint8_t { incomplete, complete, bad };

/// Looks for the empty line that ends a head. `end` is where the body begins when complete; `bad` for a
/// line feed without carriage return. `from` is where an earlier scan of the same bytes stopped.
[[nodiscard]] HeadScan scan_head(std::string_view bytes, std::size_t from, std::size_t& end);

/// Parses a whole head, the empty line included, strictly by RFC 9112: no folded lines, no blank before
/// a colon, origin form only, exactly one Host, Content-Length once and in digits, Transfer-Encoding
/// once and exactly "chunked", never both. What two parsers could read in two ways is refused; of requests
/// also names that another server could take for such a header (`Transfer_Encoding`;
/// limits::disguised_header).
[[nodiscard]] schema::Result<RequestHead> parse_request_head(std::string_view head);
[[nodiscard]] schema::Result<ResponseHead> parse_response_head(std::string_view head);

/// True for fields that concern one connection only and are never forwarded, those that `connection`
/// names included.
[[nodiscard]] bool hop_by_hop(const HeadField& field, std::string_view connection);

/// The value of Connection where it names something that hop_by_hop does not know without it, else "".
[[nodiscard]] std::string_view named_by_connection(const HeadFields& head);

}  // namespace driftgate::route
