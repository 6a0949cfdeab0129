#include "gpu/backend/backend_input.hpp"

#include <cmath>
#include <cstdio>

namespace driftgate::gpu {

namespace {

/// The first fault of a batch whose tokens must be in [0, columns), or null.
const char* fault_of(const driftgate_batch& batch, std::uint32_t columns) {
  if (batch.struct_size < sizeof(driftgate_batch))
    return "the batch has the layout of an older interface version";
  if (batch.vocabulary == 0 || batch.vocabulary > kMaxVocabulary)
    return "the vocabulary must be between 1 and 4194304";
  if (!std::isfinite(batch.temperature) || batch.temperature < kLeastTemperature) {
    return "the temperature must be a number of at least 1e-6";
  }
  if (batch.train.dtype > DRIFTGATE_BF16 || batch.inf.dtype > DRIFTGATE_BF16) return "unknown element type";
  if (batch.rows > 0 && (batch.train.data == nullptr || batch.inf.data == nullptr))
    return "the batch has no logits";
  for (std::uint64_t i = 0; batch.tokens != nullptr && i < batch.rows; ++i) {
    if (batch.tokens[i] < 0 || batch.tokens[i] >= columns) return "a token id outside the vocabulary";
  }
  return nullptr;
}

const char* fault_of(const driftgate_head_weight& head) {
  if (head.weight == nullptr || head.centre == nullptr) return "a head has no weight or no centre";
  if (head.dtype > DRIFTGATE_BF16) return "unknown element type";
  if (!std::isfinite(head.scale) || head.scale <= 0) return "the scale of a head must be greater than 0";
  if (!std::isfinite(head.soft_cap) || head.soft_cap < 0) return "a soft-cap must not be negative";
  return nullptr;
}

}  // namespace

const char* fault_of_config(const driftgate_config* config, const void* engine) {
  if (config == nullptr || engine == nullptr || config->struct_size < sizeof(driftgate_config))
    return "the configuration has the layout of an older interface version";
  if (config->top_k == 0 || config->top_k > kMaxTopK) return "top_k must be between 1 and 1024";
  if (config->threads == 0 || config->threads > kMaxThreads) return "threads must be between 1 and 1024";
  if (config->metrics > DRIFTGATE_METRICS_CORE) return "metrics must be all (0) or core (1)";
  return nullptr;
}

const char* fault_of_batch(const driftgate_batch* batch, bool complete) {
  if (!complete || batch == nullptr) return "engine, batch and results must not be null";
  return fault_of(*batch, batch->vocabulary);
}

const char* fault_of_part(const driftgate_batch* batch, const driftgate_shard* shard, bool complete) {
  if (!complete || batch == nullptr || shard == nullptr)
    return "engine, batch, shard, input and output must not be null";
  if (shard->struct_size < sizeof(driftgate_shard))
    return "the shard has the layout of an older interface version";
  if (shard->slot >= DRIFTGATE_SHARD_SLOTS) return "the slot must be 0 or 1";
  const std::uint64_t end = std::uint64_t{shard->first_column} + batch->vocabulary;
  if (shard->total_columns > kMaxVocabulary || end > shard->total_columns)
    return "the columns of the part must lie within the row, which has at most 4194304 columns";
  return fault_of(*batch, shard->total_columns);
}

const char* fault_of_heads(const driftgate_hidden_heads* heads, bool complete) {
  if (!complete || heads == nullptr) return "engine and heads must not be null";
  if (heads->struct_size < sizeof(driftgate_hidden_heads))
    return "the heads have the layout of an older interface version";
  if (heads->vocabulary == 0 || heads->vocabulary > kMaxVocabulary)
    return "the vocabulary must be between 1 and 4194304";
  if (heads->width == 0 || heads->width > kMaxWidth) return "the width must be between 1 and 65536";
  if (!std::isfinite(heads->temperature) || heads->temperature < kLeastTemperature)
    return "the temperature must be a number of at least 1e-6";
  if (heads->columns > heads->vocabulary || (heads->columns > 0 && heads->tokens == nullptr))
    return "there must be no more unmasked tokens than the vocabulary has, and their ids must be given";
  for (std::uint32_t i = 0; i < heads->columns; ++i) {
    if (heads->tokens[i] >= heads->vocabulary || (i > 0 && heads->tokens[i] <= heads->tokens[i - 1]))
      return "the ids of unmasked tokens must be ascending and less than the vocabulary";
  }
  if ((heads->bias_train == nullptr) != (heads->bias_drift == nullptr))
    return "both biases must be given, or neither";
  if (const char* fault = fault_of(heads->train)) return fault;
  return fault_of(heads->inf);
}

const char* fault_of_hidden(const driftgate_hidden_batch* batch, std::uint32_t vocabulary, bool complete) {
  if (!complete || batch == nullptr) return "engine, batch and results must not be null";
  if (batch->struct_size < sizeof(driftgate_hidden_batch))
    return "the batch has the layout of an older interface version";
  if (vocabulary == 0) return "the heads must be opened before hidden states are measured";
  if (batch->train.dtype > DRIFTGATE_BF16 || batch->inf.dtype > DRIFTGATE_BF16) return "unknown element type";
  if (batch->rows > 0 && (batch->train.data == nullptr || batch->inf.data == nullptr))
    return "the batch has no hidden states";
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
