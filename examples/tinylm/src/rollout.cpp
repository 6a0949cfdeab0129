#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "examples/tinylm/src/capture.hpp"
#include "examples/tinylm/src/capture_file.hpp"
#include "examples/tinylm/src/sampler.hpp"

namespace tinylm {
namespace {

/// A sequence that is being continued. It has a random generator of its own, so that its tokens do not depend
/// on the other sequences of the batch.
struct Continuation {
  Sequence* sequence;
  std::mt19937_64 random;
  Cache cache;
  std::vector<std::int32_t> input;  ///< what the next step reads
  CaptureRows rows;
  bool ended = false;

  Continuation(Engine& engine, Sequence& of, const RolloutOptions& options)
      : sequence(&of),
        random(options.seed * 1000003U + static_cast<std::uint64_t>(of.number)),
        cache(engine.config(), of.tokens.size() + options.max_tokens),
        input(of.tokens) {
    of.score_from = of.tokens.size();
  }

  void take(std::span<const float> raw, double top_p) {
    std::vector<float> logits(raw.begin(), raw.end());
    if (top_p < 1) keep_top_share(logits, top_p);
    const std::int32_t token = sample(logits, 1.0, random);
    rows.add(sequence->number, sequence->tokens.size(), token, logits);
    sequence->tokens.push_back(token);
    ended = token == kBos;
    input = {token};
  }
};

// Continues sequences in place, one token each in a step, as a serving engine does.
void continue_together(Engine& engine, std::span<Sequence> sequences, const RolloutOptions& options,
                       CaptureRows& rows) {
  std::vector<Continuation> all;
  all.reserve(sequences.size());
  for (Sequence& sequence : sequences) all.emplace_back(engine, sequence, options);
  for (std::size_t i = 0; i < options.max_tokens; ++i) {
    std::vector<Continuation*> running;
    std::vector<Chunk> chunks;
    for (Continuation& one : all) {
      if (one.ended) continue;
      running.push_back(&one);
      chunks.push_back({&one.cache, one.input, 1});
    }
    if (running.empty()) break;
    const auto logits = engine.forward(chunks);
    for (std::size_t k = 0; k < running.size(); ++k)
      running[k]->take(logits.subspan(k * engine.logit_stride(), engine.vocabulary()), options.top_p);
  }
  for (const Continuation& one : all) rows.append(one.rows);
}

}  // namespace

Result<std::size_t> write_rollouts(Engine& engine, const std::string& checkpoint_digest,
                                   const RolloutOptions& options) {
  if (!(options.top_p > 0 && options.top_p <= 1)) return fail("--top-p must lie above 0 and at most at 1");
  if (options.batch == 0) return fail("--batch must be at least 1");
  if (options.max_tokens == 0 || options.max_tokens >= engine.config().max_positions)
    return fail("--max-tokens must lie between 1 and " + std::to_string(engine.config().max_positions - 1));
  auto prompts = read_corpus(options.prompts, engine.config().max_positions - options.max_tokens);
  if (!prompts) return std::unexpected(prompts.error());
  CaptureRows rows;
  {
    std::ofstream out(options.out, std::ios::trunc);
    const std::span<Sequence> all(prompts->sequences);
    for (std::size_t begin = 0; begin < all.size(); begin += options.batch)
      continue_together(engine, all.subspan(begin, std::min(options.batch, all.size() - begin)), options, rows);
    for (const Sequence& sequence : all) {
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
    const std::string filter = options.top_p < 1 ? "top_p=" + nlohmann::json(options.top_p).dump() : "none";
    auto written = rows.write(options.capture, {kernel_name(engine), kernel_name(engine), checkpoint_digest,
                                                "sha256:" + *digest, filter});
    if (!written) return std::unexpected(written.error());
  }
  return rows.size();
}

}  // namespace tinylm
