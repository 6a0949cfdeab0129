#include "gpu/capture/corpus.hpp"

#include "tests/fuzz/unit.hpp"

/// A corpus in JSON Lines.
void driftgate::fuzz::run(std::string_view bytes) {
  const auto corpus = gpu::parse_corpus(bytes, "fuzz");
  if (!corpus) return;
  for (const auto& info : corpus->sequences)
    require(corpus->find(info.sequence) != nullptr, "every sequence is found by its number");
}
