#include "gpu/backend/backend_input.hpp"

#include <cmath>
#include <cstdio>

namespace driftgate::gpu {

namespace {

/// Of a batch whose tokens are in [0, columns).
const char* fault_of(const driftgate_batch& batch, std::uint32_t columns) {
  if (batch.struct_size < sizeof(driftgate_batch)) return "the batch is of an older interface";
  if (batch.vocabulary == 0 || batch.vocabulary > kMaxVocabulary)
    return "the vocabulary must be between 1 and 4194304";
  if (!std::isfinite(batch.temperature) || batch.temperature < kLeastTemperature) {
    return "the temperature must be a number of at least 1e-6";
  }
  if (batch.train.dtype > DRIFTGATE_BF16 || batch.inf.dtype > DRIFTGATE_BF16) return "unknown element type";
  if (batch.rows > 0 && (batch.train.data == nullptr || batch.inf.data == nullptr))
    return "a batch without logits";
  for (std::uint64_t i = 0; batch.tokens != nullptr && i < batch.rows; ++i) {
    if (batch.tokens[i] < 0 || batch.tokens[i] >= columns) return "a token id outside the vocabulary";
  }
  return nullptr;
}

const char* fault_of(const driftgate_head_weight& head) {
  if (head.weight == nullptr || head.centre == nullptr) return "a head without weight or centre";
  if (head.dtype > DRIFTGATE_BF16) return "unknown element type";
  if (!std::isfinite(head.scale) || head.scale <= 0) return "the scale of a head must be greater than 0";
  if (!std::isfinite(head.soft_cap) || head.soft_cap < 0) return "a soft-cap must not be negative";
  return nullptr;
}

}  // namespace

const char* fault_of_config(const driftgate_config* config, const void* engine) {
  if (config == nullptr || engine == nullptr || config->struct_size < sizeof(driftgate_config))
    return "the configuration is of an older interface";
  if (config->top_k == 0 || config->top_k > kMaxTopK) return "top_k must be between 1 and 1024";
  if (config->threads == 0 || config->threads > kMaxThreads) return "threads must be between 1 and 1024";
  if (config->metrics > DRIFTGATE_METRICS_CORE) return "metrics must be all (0) or core (1)";
  return nullptr;
}

const char* fault_of_batch(const driftgate_batch* batch, bool complete) {
  if (!complete || batch == nullptr) return "engine, batch and results are needed";
  return fault_of(*batch, batch->vocabulary);
}

const char* fault_of_part(const driftgate_batch* batch, const driftgate_shard* shard, bool complete) {
  if (!complete || batch == nullptr || shard == nullptr)
    return "engine, batch, shard, what is read and what is written are needed";
  if (shard->struct_size < sizeof(driftgate_shard)) return "the shard is of an older interface";
  if (shard->slot >= DRIFTGATE_SHARD_SLOTS) return "there are only two slots";
  const std::uint64_t end = std::uint64_t{shard->first_column} + batch->vocabulary;
  if (shard->total_columns > kMaxVocabulary || end > shard->total_columns)
    return "the columns held must be among those of the row, at most 4194304";
  return fault_of(*batch, shard->total_columns);
}

const char* fault_of_heads(const driftgate_hidden_heads* heads, bool complete) {
  if (!complete || heads == nullptr) return "engine and heads are needed";
  if (heads->struct_size < sizeof(driftgate_hidden_heads)) return "the heads are of an older interface";
  if (heads->vocabulary == 0 || heads->vocabulary > kMaxVocabulary)
    return "the vocabulary must be between 1 and 4194304";
  if (heads->width == 0 || heads->width > kMaxWidth) return "the width must be between 1 and 65536";
  if (!std::isfinite(heads->temperature) || heads->temperature < kLeastTemperature)
    return "the temperature must be a number of at least 1e-6";
  if (heads->columns > heads->vocabulary || (heads->columns > 0 && heads->tokens == nullptr))
    return "the tokens that take part must be some of the vocabulary";
  for (std::uint32_t i = 0; i < heads->columns; ++i) {
    if (heads->tokens[i] >= heads->vocabulary || (i > 0 && heads->tokens[i] <= heads->tokens[i - 1]))
      return "the tokens that take part must be ascending and of the vocabulary";
  }
  if ((heads->bias_train == nullptr) != (heads->bias_drift == nullptr)) return "one bias without the other";
  if (const char* fault = fault_of(heads->train)) return fault;
  return fault_of(heads->inf);
}

const char* fault_of_hidden(const driftgate_hidden_batch* batch, std::uint32_t vocabulary, bool complete) {
  if (!complete || batch == nullptr) return "engine, batch and results are needed";
  if (batch->struct_size < sizeof(driftgate_hidden_batch)) return "the batch is of an older interface";
  if (vocabulary == 0) return "hidden states before their heads";
  if (batch->train.dtype > DRIFTGATE_BF16 || batch->inf.dtype > DRIFTGATE_BF16) return "unknown element type";
  if (batch->rows > 0 && (batch->train.data == nullptr || batch->inf.data == nullptr))
    return "a batch without hidden states";
  for (std::uint64_t i = 0; batch->tokens != nullptr && i < batch->rows; ++i) {
    if (batch->tokens[i] < 0 || batch->tokens[i] >= vocabulary) return "a token id outside the vocabulary";
  }
  return nullptr;
}

std::int32_t refuse(std::int32_t status, const char* text, char* message, std::uint64_t message_bytes) {
  if (message != nullptr && message_bytes > 0) std::snprintf(message, message_bytes, "%s", text);
  return status;
}

}  // namespace driftgate::gpu
