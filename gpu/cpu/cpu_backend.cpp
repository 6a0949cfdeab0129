#include "gpu/cpu/cpu_backend.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/backend/backend_input.hpp"
#include "gpu/cpu/row_engine.hpp"
#include "gpu/cpu/shard_engine.hpp"
#include "gpu/cpu/split_rows.hpp"

namespace driftgate::gpu::cpu {

namespace {

struct Engine {
  const TileKernel& kernel;
  std::uint32_t threads, top_k, metrics;
  std::uint32_t vocabulary = 0;
  std::vector<std::unique_ptr<RowEngine>> rows;   // one for each thread, made at the first batch of a shape
  std::unique_ptr<ShardEngine> shards = nullptr;  // made at the first part
  std::unique_ptr<SplitRows> splits = nullptr;    // made at the first batch of long rows
};

std::int32_t open_engine(const driftgate_config* config, void** engine, char* message, std::uint64_t bytes) {
  if (const char* fault = fault_of_config(config, engine))
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  try {
    *engine = new Engine{best_kernel(), config->threads, config->top_k, config->metrics, 0, {}};
  } catch (const std::exception& error) {
    return refuse(DRIFTGATE_FAILED, error.what(), message, bytes);
  }
  return DRIFTGATE_OK;
}

std::int32_t describe_engine(void* engine, char* text, std::uint64_t bytes) {
  const auto& self = *static_cast<const Engine*>(engine);
  if (bytes > 0) std::snprintf(text, bytes, "cpu, %s kernel, %u thread(s)", self.kernel.name, self.threads);
  return DRIFTGATE_OK;
}

void measure_long_rows(Engine& self, const driftgate_batch& batch, std::span<driftgate_row> results) {
  if (!self.splits || self.splits->vocabulary() != batch.vocabulary) {
    self.splits = nullptr;  // freed before the next one takes as much memory
    self.splits =
        std::make_unique<SplitRows>(self.kernel, self.threads, batch.vocabulary, self.top_k, self.metrics);
  }
  self.splits->measure(batch, results);
}

void measure_rows(Engine& self, const driftgate_batch& batch, driftgate_row* results) {
  if (batch.vocabulary > kMostWholeColumns) return measure_long_rows(self, batch, {results, batch.rows});
  if (self.vocabulary != batch.vocabulary) {
    self.rows.clear();
    self.vocabulary = batch.vocabulary;
  }
  const auto threads = static_cast<std::size_t>(std::clamp<std::uint64_t>(batch.rows, 1, self.threads));
  while (self.rows.size() < threads) {
    self.rows.push_back(std::make_unique<RowEngine>(self.kernel, batch.vocabulary, self.top_k, self.metrics));
  }
  const auto work = [&](std::size_t thread) {
    const std::uint64_t begin = batch.rows * thread / threads;
    const std::uint64_t end = batch.rows * (thread + 1) / threads;
    for (std::uint64_t row = begin; row < end; ++row) self.rows[thread]->measure(batch, row, results[row]);
  };
  std::vector<std::jthread> others;
  for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
}

std::int32_t measure_batch(void* engine, const driftgate_batch* batch, driftgate_row* results, char* message,
                           std::uint64_t bytes) {
  const bool complete = engine != nullptr && results != nullptr;
  if (const char* fault = fault_of_batch(batch, complete))
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  try {
    measure_rows(*static_cast<Engine*>(engine), *batch, results);
  } catch (const std::exception& error) {
    return refuse(DRIFTGATE_FAILED, error.what(), message, bytes);
  }
  return DRIFTGATE_OK;
}

std::int32_t shard_pass1(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         driftgate_shard_partial* partials, driftgate_top_entry* top, char* message,
                         std::uint64_t bytes) {
  const bool complete = engine != nullptr && partials != nullptr && top != nullptr;
  if (const char* fault = fault_of_part(batch, shard, complete))
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  auto& self = *static_cast<Engine*>(engine);
  try {
    if (!self.shards)
      self.shards = std::make_unique<ShardEngine>(self.kernel, self.threads, self.top_k, self.metrics);
    const std::size_t places = 2 * std::max<std::size_t>(self.top_k, 2);
    self.shards->pass1(*batch, *shard, {partials, batch->rows}, {top, batch->rows * places});
  } catch (const std::exception& error) {
    return refuse(DRIFTGATE_FAILED, error.what(), message, bytes);
  }
  return DRIFTGATE_OK;
}

std::int32_t shard_pass2(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         const driftgate_shard_row* rows, driftgate_shard_terms* terms, char* message,
                         std::uint64_t bytes) {
  const bool complete = engine != nullptr && rows != nullptr && terms != nullptr;
  if (const char* fault = fault_of_part(batch, shard, complete))
    return refuse(DRIFTGATE_INVALID, fault, message, bytes);
  auto& self = *static_cast<Engine*>(engine);
  if (!self.shards || !self.shards->follows(*batch, *shard))
    return refuse(DRIFTGATE_INVALID, "pass 2 was called for a batch that had no pass 1 in this slot", message,
                  bytes);
  try {
    self.shards->pass2(*batch, *shard, {rows, batch->rows}, {terms, batch->rows});
  } catch (const std::exception& error) {
    return refuse(DRIFTGATE_FAILED, error.what(), message, bytes);
  }
  return DRIFTGATE_OK;
}

void close_engine(void* engine) {
  delete static_cast<Engine*>(engine);
}

constexpr driftgate_backend kTable = {sizeof(driftgate_backend),
                                      DRIFTGATE_BACKEND_VERSION,
                                      "cpu",
                                      open_engine,
                                      describe_engine,
                                      measure_batch,
                                      close_engine,
                                      shard_pass1,
                                      shard_pass2,
                                      nullptr,  // hidden states: gpu/fused
                                      nullptr};

}  // namespace

const driftgate_backend* backend_table() {
  return &kTable;
}

}  // namespace driftgate::gpu::cpu
