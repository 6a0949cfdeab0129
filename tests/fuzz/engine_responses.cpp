#include <optional>

#include "gpu/ingest/engine_rows.hpp"
#include "tests/fuzz/unit.hpp"

using namespace driftgate::gpu::ingest;

/// Answers of engines: the first byte chooses the shape, 7 the file of saved logits; from 128 on the shape is
/// not named.
void driftgate::fuzz::run(std::string_view bytes) {
  if (bytes.empty()) return;
  const bool named = static_cast<unsigned char>(bytes.front()) < 128U;
  const auto shape = static_cast<unsigned char>(bytes.front()) % 8U;
  bytes.remove_prefix(1);
  ReadOptions options;
  options.tokens.add("a", 1);
  options.matched = shape == 6;
  const Format format = shape == 6 ? Format::sglang : static_cast<Format>(shape % 6);
  const auto rows =
      shape == 7 || format == Format::llamacpp_logits
          ? read_saved_logits(bytes, options, "input")
          : read_responses(named ? std::optional(format) : std::nullopt, bytes, options, "input");
  if (!rows) {
    require(!rows.error().message.empty(), "an error says something");
    return;
  }
  for (const EngineRow& row : rows->rows) {
    require(row.token >= 0, "a realised token has an id");
    require(row.logprob || !row.list.empty(), "a row knows something");
  }
}
