#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::size_t kMaxCorpusBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxCorpusLineBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxCorpusSequences = 10'000'000;
inline constexpr std::size_t kMaxSliceKeys = 32;
inline constexpr std::size_t kMaxSliceTextBytes = 256;  ///< of a slice's key or value

/// The attributes of the sequences of a corpus (docs/design/measurement.md, "Corpus"), in file order.
struct Corpus {
  std::vector<SequenceInfo> sequences;
  std::unordered_map<std::int64_t, std::size_t> by_sequence;
  /// Null when the corpus does not contain the sequence.
  [[nodiscard]] const SequenceInfo* find(std::int64_t sequence) const;
};

/// Parses JSON Lines, one object for each sequence; unknown fields are ignored. Errors: invalid_document or
/// limit_exceeded, with `name` and the line.
[[nodiscard]] schema::Result<Corpus> parse_corpus(std::string_view text, std::string_view name);
[[nodiscard]] schema::Result<Corpus> read_corpus(const std::filesystem::path& path);

}  // namespace driftgate::gpu
