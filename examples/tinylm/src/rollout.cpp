#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/tinylm/src/capture.hpp"
#include "examples/tinylm/src/capture_file.hpp"
#include "examples/tinylm/src/sampler.hpp"

namespace tinylm {
namespace {

// Continues the sequence in place, one token at a time as a serving engine does.
void continue_sequence(Engine& engine, Sequence& sequence, const RolloutOptions& options, CaptureRows& rows) {
  std::mt19937_64 random(options.seed * 1000003U + static_cast<std::uint64_t>(sequence.number));
  Cache cache(engine.config(), sequence.tokens.size() + options.max_tokens);
  sequence.score_from = sequence.tokens.size();
  std::vector<std::int32_t> input = sequence.tokens;
  for (std::size_t i = 0; i < options.max_tokens; ++i) {
    const Chunk chunk{&cache, input, 1};
    const auto logits = engine.forward({&chunk, 1}).first(engine.vocabulary());
    const std::int32_t token = sample(logits, 1.0, random);
    rows.add(sequence.number, sequence.tokens.size(), token, logits);
    sequence.tokens.push_back(token);
    if (token == kBos) return;
    input = {token};
  }
}

}  // namespace

Result<std::size_t> write_rollouts(Engine& engine, const std::string& checkpoint_digest,
                                   const RolloutOptions& options) {
  if (options.max_tokens == 0 || options.max_tokens >= engine.config().max_positions)
    return fail("--max-tokens must lie between 1 and " + std::to_string(engine.config().max_positions - 1));
  auto prompts = read_corpus(options.prompts, engine.config().max_positions - options.max_tokens);
  if (!prompts) return std::unexpected(prompts.error());
  CaptureRows rows;
  {
    std::ofstream out(options.out, std::ios::trunc);
    for (Sequence& sequence : prompts->sequences) {
      continue_sequence(engine, sequence, options, rows);
      const nlohmann::json row = {{"sequence", sequence.number},  {"id", sequence.id},
                                  {"slices", sequence.slices},    {"token_source", kernel_name(engine)},
                                  {"token_ids", sequence.tokens}, {"score_from", sequence.score_from}};
      out << row.dump() << '\n';
    }
    if (!out.flush()) return fail("cannot write " + options.out + ": check the folder and the space left");
  }
  auto digest = file_sha256(options.out);
  if (!digest) return std::unexpected(digest.error());
  if (!options.capture.empty()) {
    auto written = rows.write(
        options.capture, {kernel_name(engine), kernel_name(engine), checkpoint_digest, "sha256:" + *digest});
    if (!written) return std::unexpected(written.error());
  }
  return rows.size();
}

}  // namespace tinylm
