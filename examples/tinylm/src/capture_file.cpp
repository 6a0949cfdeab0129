#include "examples/tinylm/src/capture_file.hpp"

#include "examples/tinylm/src/safetensors.hpp"
#include "examples/tinylm/src/sampler.hpp"

namespace tinylm {

void CaptureRows::add(std::int32_t sequence, std::size_t index, std::int32_t token,
                      std::span<const float> logits, std::span<const float> kept) {
  sequences_.push_back(sequence);
  positions_.push_back(static_cast<std::int32_t>(index) - 1);
  tokens_.push_back(token);
  kept_.insert(kept_.end(), kept.begin(), kept.end());
  logprobs_.push_back(static_cast<float>(log_softmax(logits)[static_cast<std::size_t>(token)]));
}

void CaptureRows::append(const CaptureRows& other) {
  sequences_.insert(sequences_.end(), other.sequences_.begin(), other.sequences_.end());
  positions_.insert(positions_.end(), other.positions_.begin(), other.positions_.end());
  tokens_.insert(tokens_.end(), other.tokens_.begin(), other.tokens_.end());
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  logprobs_.insert(logprobs_.end(), other.logprobs_.begin(), other.logprobs_.end());
}

Result<void> CaptureRows::write(const std::string& path, const CaptureIdentity& identity) const {
  if (tokens_.empty()) return fail("no row to write to " + path + ": the corpus has no scored token");
  const std::size_t n = tokens_.size();
  TensorFile file;
  file.metadata = {{"capture.version", "1"},
                   {"kernel", identity.kernel},
                   {"token_source", identity.token_source},
                   {"checkpoint.digest", identity.checkpoint_digest},
                   {"corpus.digest", identity.corpus_digest},
                   {"temperature", "1.0"},
                   {"sampling_filter", identity.sampling_filter}};
  if (!head_.empty()) file.metadata["lm_head"] = head_;
  file.tensors[head_.empty() ? "logits" : "hidden"] = {{n, kept_.size() / n}, kept_, {}};
  file.tensors["logprobs"] = {{n}, logprobs_, {}};
  file.tensors["sequence_ids"] = {{n}, {}, sequences_};
  file.tensors["positions"] = {{n}, {}, positions_};
  file.tensors["token_ids"] = {{n}, {}, tokens_};
  return write_safetensors(path, file);
}

}  // namespace tinylm
