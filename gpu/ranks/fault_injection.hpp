#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// Ways in which an inference kernel is made to be wrong, to test contracts with.
enum class Fault : std::uint8_t {
  scaled_rows,      ///< logits of a tenth of the sequences times 1.25, as by a wrong dequantisation scale
  permuted_head,    ///< the two halves of the vocabulary swapped, as by head shards in the wrong order
  corrupted_slice,  ///< noise of one nat on every logit of one slice's rows
  nan,              ///< one logit of one row is NaN
  off_by_one,       ///< each row of a sequence has the logits of the next one
};
inline constexpr std::size_t kFaultCount = 5;
[[nodiscard]] std::string_view to_string(Fault fault);  ///< "scaled-rows" …

/// Writes a copy of `inf` (float32, one file, same identity) with `fault`. `slice` names the rows of
/// corrupted_slice; it needs `corpus`. Errors: `invalid_argument` when the slice has no rows, `io`.
[[nodiscard]] schema::Result<void> write_faulty_capture(const Capture& inf, const Corpus* corpus, Fault fault,
                                                        const SliceAttributes& slice, std::uint64_t seed,
                                                        const std::filesystem::path& path);

}  // namespace driftgate::gpu
