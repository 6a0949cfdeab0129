// The table of the CUDA plugin library (gpu/backend.h).

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "gpu/backend.h"
#include "gpu/cuda/row_pipeline.hpp"

namespace driftgate::gpu::cuda {

namespace {

constexpr std::uint32_t kMaxThreads = 1'024;
constexpr std::uint32_t kMaxTopK = 1'024;
constexpr std::uint32_t kMaxVocabulary = 1U << 22;
constexpr double kLeastTemperature = 1e-6;

struct Engine {
  int device;
  std::string text;
  Mode mode;
  RowPipeline pipeline;
};

std::int32_t refuse(std::int32_t status, const char* text, char* message, std::uint64_t message_bytes) {
  if (message != nullptr && message_bytes > 0) std::snprintf(message, message_bytes, "%s", text);
  return status;
}

/// Runs `body`, which may throw, behind the C interface.
template <typename Body>
std::int32_t guarded(char* message, std::uint64_t bytes, Body body) {
  try {
    body();
  } catch (const CudaError& error) {
    return refuse(error.unavailable() ? DRIFTGATE_UNAVAILABLE : DRIFTGATE_FAILED, error.text().c_str(),
                  message, bytes);
  } catch (const std::exception& error) {
    return refuse(DRIFTGATE_FAILED, error.what(), message, bytes);
  }
  return DRIFTGATE_OK;
}

std::int32_t open_engine(const driftgate_config* config, void** engine, char* message, std::uint64_t bytes) {
  if (config == nullptr || engine == nullptr || config->struct_size < sizeof(driftgate_config)) {
    return refuse(DRIFTGATE_INVALID, "the configuration is of an older interface", message, bytes);
  }
  if (config->top_k == 0 || config->top_k > kMaxTopK) {
    return refuse(DRIFTGATE_INVALID, "top_k must be between 1 and 1024", message, bytes);
  }
  if (config->threads == 0 || config->threads > kMaxThreads) {
    return refuse(DRIFTGATE_INVALID, "threads must be between 1 and 1024", message, bytes);
  }
  if (config->metrics > DRIFTGATE_METRICS_CORE) {
    return refuse(DRIFTGATE_INVALID, "metrics must be all (0) or core (1)", message, bytes);
  }
  if (config->device < 0) return refuse(DRIFTGATE_INVALID, "the device must not be negative", message, bytes);
  return guarded(message, bytes, [&] {
    use_device(config->device);
    *engine = new Engine{config->device,
                         device_text(config->device),
                         config->metrics == DRIFTGATE_METRICS_CORE ? Mode::core : Mode::all,
                         {config->top_k, config->threads}};
  });
}

std::int32_t describe_engine(void* engine, char* text, std::uint64_t bytes) {
  const auto& self = *static_cast<const Engine*>(engine);
  if (bytes > 0) std::snprintf(text, bytes, "cuda:%d, %s", self.device, self.text.c_str());
  return DRIFTGATE_OK;
}

/// What is wrong with a batch whose tokens are in [0, columns); null when nothing is.
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

const char* fault_of_part(const driftgate_batch* batch, const driftgate_shard* shard) {
  if (batch == nullptr || shard == nullptr)
    return "engine, batch, shard, what is read and what is written are needed";
  if (shard->struct_size < sizeof(driftgate_shard)) return "the shard is of an older interface";
  if (shard->slot >= DRIFTGATE_SHARD_SLOTS) return "there are only two slots";
  if (shard->total_columns > kMaxVocabulary ||
      std::uint64_t{shard->first_column} + batch->vocabulary > shard->total_columns)
    return "the columns held must be among those of the row, at most 4194304";
  return fault_of(*batch, shard->total_columns);
}

std::int32_t run(void* engine, const driftgate_batch& batch, const Job& job, char* message,
                 std::uint64_t bytes) {
  return guarded(message, bytes, [&] {
    auto& self = *static_cast<Engine*>(engine);
    use_device(self.device);  // the device belongs to the thread, and callers may change theirs
    self.pipeline.run(batch, job);
  });
}

std::int32_t measure_batch(void* engine, const driftgate_batch* batch, driftgate_row* results, char* message,
                           std::uint64_t bytes) {
  if (engine == nullptr || batch == nullptr || results == nullptr) {
    return refuse(DRIFTGATE_INVALID, "engine, batch and results are needed", message, bytes);
  }
  if (const char* fault = fault_of(*batch, batch->vocabulary)) {
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  }
  Job job;
  job.mode = static_cast<Engine*>(engine)->mode;
  job.rows = results;
  return run(engine, *batch, job, message, bytes);
}

std::int32_t shard_pass1(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         driftgate_shard_partial* partials, driftgate_top_entry* top, char* message,
                         std::uint64_t bytes) {
  const bool complete = engine != nullptr && partials != nullptr && top != nullptr;
  if (const char* fault = fault_of_part(complete ? batch : nullptr, shard)) {
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  }
  Job job;
  job.mode = Mode::shard_first;
  job.shard = shard;
  job.partials = partials;
  job.top = top;
  return run(engine, *batch, job, message, bytes);
}

/// Reads the part again: nothing is kept between the passes.
std::int32_t shard_pass2(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         const driftgate_shard_row* rows, driftgate_shard_terms* terms, char* message,
                         std::uint64_t bytes) {
  const bool complete = engine != nullptr && rows != nullptr && terms != nullptr;
  if (const char* fault = fault_of_part(complete ? batch : nullptr, shard)) {
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  }
  Job job;
  job.mode = Mode::shard_second;
  job.shard = shard;
  job.merged = rows;
  job.terms = terms;
  return run(engine, *batch, job, message, bytes);
}

void close_engine(void* engine) {
  const std::unique_ptr<Engine> self(static_cast<Engine*>(engine));
  guarded(nullptr, 0, [&] { use_device(self->device); });
}

constexpr driftgate_backend kTable = {sizeof(driftgate_backend),
                                      DRIFTGATE_BACKEND_VERSION,
                                      "cuda",
                                      open_engine,
                                      describe_engine,
                                      measure_batch,
                                      close_engine,
                                      shard_pass1,
                                      shard_pass2};

}  // namespace

}  // namespace driftgate::gpu::cuda

extern "C" __attribute__((visibility("default"))) const driftgate_backend* driftgate_backend_table() {
  return &driftgate::gpu::cuda::kTable;
}
