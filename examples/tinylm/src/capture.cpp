#include "examples/tinylm/src/capture.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include "examples/tinylm/src/capture_file.hpp"
#include "examples/tinylm/src/sampler.hpp"

namespace tinylm {
namespace {

// The rows of `like`: for each sequence the indices of its scored tokens.
Result<std::map<std::int32_t, std::vector<std::size_t>>> rows_like(const std::string& path,
                                                                   const Corpus& corpus,
                                                                   const std::string& checkpoint_digest) {
  auto file = read_safetensors(path);
  if (!file) return std::unexpected(file.error());
  const auto& meta = file->metadata;
  if (meta.contains("checkpoint.digest") && meta.at("checkpoint.digest") != checkpoint_digest)
    return fail(path + " belongs to another checkpoint: " + meta.at("checkpoint.digest"));
  if (meta.contains("corpus.digest") && meta.at("corpus.digest") != corpus.digest)
    return fail(path + " is of another corpus: " + meta.at("corpus.digest"));
  for (const char* name : {"sequence_ids", "positions", "token_ids"})
    if (!file->tensors.contains(name)) return fail(path + " has no tensor " + name);
  const auto& ids = file->tensors["sequence_ids"].integers;
  const auto& positions = file->tensors["positions"].integers;
  const auto& tokens = file->tensors["token_ids"].integers;
  if (ids.size() != positions.size() || ids.size() != tokens.size())
    return fail(path + ": sequence_ids, positions and token_ids differ in length");
  std::map<std::int32_t, const Sequence*> by_number;
  for (const Sequence& sequence : corpus.sequences) by_number[sequence.number] = &sequence;
  std::map<std::int32_t, std::vector<std::size_t>> rows;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = by_number.find(ids[i]);
    const auto next = static_cast<std::size_t>(positions[i]) + 1;
    if (found == by_number.end() || positions[i] < 0 || next >= found->second->tokens.size() ||
        found->second->tokens[next] != tokens[i])
      return fail(path + ", row " + std::to_string(i) + ": its token is not that of the corpus");
    rows[ids[i]].push_back(next);
  }
  return rows;
}

std::size_t first_scored(const Sequence& sequence, std::size_t positions) {
  if (sequence.score_from > 0) return sequence.score_from;
  return sequence.tokens.size() > positions ? sequence.tokens.size() - positions : 1;
}

}  // namespace

std::string kernel_name(const Engine& engine) {
  return "tinylm-" + std::string(name_of(engine.precision()));
}

Result<std::size_t> write_capture(Engine& engine, const std::string& checkpoint_digest,
                                  const CaptureOptions& options) {
  auto corpus = read_corpus(options.corpus, engine.config().max_positions);
  if (!corpus) return std::unexpected(corpus.error());
  std::map<std::int32_t, std::vector<std::size_t>> wanted;
  if (!options.like.empty()) {
    auto rows = rows_like(options.like, *corpus, checkpoint_digest);
    if (!rows) return std::unexpected(rows.error());
    wanted = std::move(*rows);
  }
  if (options.hidden && engine.precision() == Precision::bf16)
    return fail(
        "kernel bf16 rounds lm_head, so that the head of the checkpoint does not give its logits; capture "
        "logits");
  CaptureRows rows;
  if (options.hidden) rows.set_head("lm_head.weight");
  for (std::size_t begin = 0; begin < corpus->sequences.size(); begin += options.batch) {
    const std::size_t end = std::min(begin + options.batch, corpus->sequences.size());
    std::vector<std::unique_ptr<Cache>> caches;
    std::vector<Chunk> chunks;
    std::vector<std::pair<const Sequence*, std::vector<std::size_t>>> scored;
    for (std::size_t i = begin; i < end; ++i) {
      const Sequence& sequence = corpus->sequences[i];
      std::vector<std::size_t> at;
      if (options.like.empty())
        for (std::size_t t = first_scored(sequence, options.positions); t < sequence.tokens.size(); ++t)
          at.push_back(t);
      else
        at = wanted[sequence.number];
      if (at.empty()) continue;
      const std::size_t inputs = sequence.tokens.size() - 1;
      caches.push_back(std::make_unique<Cache>(engine.config(), inputs));
      const std::size_t first = *std::min_element(at.begin(), at.end());
      chunks.push_back({caches.back().get(), std::span(sequence.tokens).first(inputs), inputs + 1 - first});
      scored.emplace_back(&sequence, std::move(at));
    }
    const auto logits = engine.forward(chunks);
    std::size_t row = 0;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const auto& [sequence, at] = scored[c];
      const std::size_t first = sequence->tokens.size() - chunks[c].logit_rows;
      for (const std::size_t t : at) {
        const auto scores = logits.subspan((row + t - first) * engine.logit_stride(), engine.vocabulary());
        const std::size_t width = engine.config().hidden;
        const auto kept = options.hidden ? engine.hidden().subspan((row + t - first) * width, width) : scores;
        rows.add(sequence->number, t, sequence->tokens[t], scores, kept);
      }
      row += chunks[c].logit_rows;
    }
  }
  auto written =
      rows.write(options.out, {kernel_name(engine), corpus->token_source, checkpoint_digest, corpus->digest});
  if (!written) return std::unexpected(written.error());
  return rows.size();
}

}  // namespace tinylm
