#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/library/driftgate.h"
#include "gpu/capture/capture.hpp"
#include "schema/error.hpp"

namespace driftgate::library {

inline constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 32;

using Metadata = std::map<std::string, std::string>;

/// The metadata of a capture with this identity. Errors: those of text_of.
[[nodiscard]] schema::Result<Metadata> metadata_of(const dg_identity* identity, std::string_view what);

/// Rows of the caller as a capture reads them. What it points to must outlive the captures that are made of
/// it, and `zeros` as long as they are made.
struct GivenRows {
  gpu::MemoryRows rows;
  std::vector<std::int64_t> zeros;  ///< the sequences, where the caller gave none
};
/// `metadata`: of the identity. Errors: invalid_argument for a struct that makes no sense, limit_exceeded.
[[nodiscard]] schema::Result<GivenRows> read_rows(const dg_rows& rows, std::string name,
                                                  const Metadata& metadata);

/// The element type of this number, if it is one. Errors: invalid_argument.
[[nodiscard]] schema::Result<gpu::DType> dtype_of(std::uint32_t dtype, std::string_view what);
[[nodiscard]] std::uint32_t number_of(gpu::DType dtype);

}  // namespace driftgate::library
