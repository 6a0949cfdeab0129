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

/// Faults that are injected into the capture of an inference kernel, to test whether a contract detects them.
enum class Fault : std::uint8_t {
  scaled_rows,      ///< logits of a tenth of the sequences times 1.25, as by a wrong dequantisation scale
  permuted_head,    ///< the two halves of the vocabulary swapped, as when shards of the head are in the wrong order
  corrupted_slice,  ///< noise of one nat on every logit of one slice's rows
  nan,              ///< one logit of one row is NaN
  off_by_one,       ///< each row of a sequence has the logits of the next one
};
inline constexpr std::size_t kFaultCount = 5;
[[nodiscard]] std::string_view to_string(Fault fault);  ///< "scaled-rows" …

/// Writes a copy of the full-logit capture `inf` with `fault` (float32, one file, same identity). `slice`,
/// which needs `corpus`, selects the rows of corrupted_slice. The same `seed` gives the same file. Errors:
/// invalid_argument when the slice has no rows, unsupported when `inf` holds no logits, io.
[[nodiscard]] schema::Result<void> write_faulty_capture(const Capture& inf, const Corpus* corpus, Fault fault,
                                                        const SliceAttributes& slice, std::uint64_t seed,
                                                        const std::filesystem::path& path);

}  // namespace driftgate::gpu
