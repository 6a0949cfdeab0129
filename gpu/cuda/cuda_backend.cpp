// The table of the CUDA plugin library (gpu/backend/backend.h).

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "gpu/backend/backend.h"
#include "gpu/backend/backend_input.hpp"
#include "gpu/cuda/hidden_pipeline.hpp"
#include "gpu/cuda/row_pipeline.hpp"

namespace driftgate::gpu::cuda {

namespace {

struct Engine {
  int device;
  std::string text;
  Mode mode;
  std::uint32_t top_k;
  RowPipeline pipeline;
  std::unique_ptr<HiddenPipeline> hidden;  // present once heads are set
};

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
  if (const char* fault = fault_of_config(config, engine)) {
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  }
  if (config->device < 0) return refuse(DRIFTGATE_INVALID, "the device must not be negative", message, bytes);
  return guarded(message, bytes, [&] {
    use_device(config->device);
    *engine = new Engine{config->device,
                         device_text(config->device),
                         config->metrics == DRIFTGATE_METRICS_CORE ? Mode::core : Mode::all,
                         config->top_k,
                         {config->top_k, config->threads},
                         nullptr};
  });
}

std::int32_t describe_engine(void* engine, char* text, std::uint64_t bytes) {
  const auto& self = *static_cast<const Engine*>(engine);
  if (bytes > 0) std::snprintf(text, bytes, "cuda:%d, %s", self.device, self.text.c_str());
  return DRIFTGATE_OK;
}

std::int32_t run(void* engine, const driftgate_batch& batch, const Job& job, char* message,
                 std::uint64_t bytes) {
  return guarded(message, bytes, [&] {
    auto& self = *static_cast<Engine*>(engine);
    use_device(self.device);  // the current device is a property of the thread, and callers may change it
    self.pipeline.run(batch, job);
  });
}

std::int32_t measure_batch(void* engine, const driftgate_batch* batch, driftgate_row* results, char* message,
                           std::uint64_t bytes) {
  const bool complete = engine != nullptr && results != nullptr;
  if (const char* fault = fault_of_batch(batch, complete)) {
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
  if (const char* fault = fault_of_part(batch, shard, complete)) {
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
  if (const char* fault = fault_of_part(batch, shard, complete)) {
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  }
  Job job;
  job.mode = Mode::shard_second;
  job.shard = shard;
  job.merged = rows;
  job.terms = terms;
  return run(engine, *batch, job, message, bytes);
}

std::int32_t hidden_open(void* engine, const driftgate_hidden_heads* heads, char* message,
                         std::uint64_t bytes) {
  if (const char* fault = fault_of_heads(heads, engine != nullptr)) {
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  }
  if (heads->width > kMaxHiddenWidth) {
    return refuse(DRIFTGATE_INVALID,
                  "hidden states of more than 32768 elements are measured on the CPU alone; use --device cpu",
                  message, bytes);
  }
  return guarded(message, bytes, [&] {
    auto& self = *static_cast<Engine*>(engine);
    use_device(self.device);
    self.hidden.reset();  // frees its memory for the new heads
    self.hidden = std::make_unique<HiddenPipeline>(*heads, self.top_k, self.mode == Mode::core);
  });
}

std::int32_t hidden_measure(void* engine, const driftgate_hidden_batch* batch, driftgate_row* results,
                            char* message, std::uint64_t bytes) {
  auto* const self = static_cast<Engine*>(engine);
  const bool complete = self != nullptr && results != nullptr;
  const std::uint32_t vocabulary = complete && self->hidden ? self->hidden->vocabulary() : 0;
  if (const char* fault = fault_of_hidden(batch, vocabulary, complete)) {
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  }
  return guarded(message, bytes, [&] {
    use_device(self->device);
    self->hidden->run(*batch, results);
  });
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
                                      shard_pass2,
                                      hidden_open,
                                      hidden_measure};

}  // namespace

}  // namespace driftgate::gpu::cuda

extern "C" __attribute__((visibility("default"))) const driftgate_backend* driftgate_backend_table() {
  return &driftgate::gpu::cuda::kTable;
}
