#pragma once

#include <map>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::route {

/// Slice attributes of one request by dimension, e.g. {"language": "de"}.
using SliceAttributes = std::map<std::string, std::string>;

inline constexpr std::size_t kMaxSliceHeaderBytes = 512;
inline constexpr std::size_t kMaxSliceDimensions = 8;
inline constexpr std::size_t kMaxDimensionBytes = 32;   ///< [a-z][a-z0-9_]*
inline constexpr std::size_t kMaxSliceValueBytes = 64;  ///< printable ASCII without ; = , " and \.

/// The value of the header `driftgate-slice`: "language=de;domain=code", blanks around parts allowed.
[[nodiscard]] schema::Result<SliceAttributes> parse_slice_header(std::string_view text);

/// What of a body's `metadata` can be a slice: values that fit the limits, the first by name up to
/// kMaxSliceDimensions. Other values are ignored.
[[nodiscard]] SliceAttributes slice_of_metadata(const std::map<std::string, std::string>& metadata);

/// "domain=code;language=de": sorted by dimension; empty for no attributes.
[[nodiscard]] std::string canonical_slice(const SliceAttributes& slice);

/// True when `slice` has every attribute of `where`.
[[nodiscard]] bool matches(const std::map<std::string, std::string>& where, const SliceAttributes& slice);

}  // namespace driftgate::route
