// A fake backend with four devices for rows of hidden states. It reports every third row as not measured; the
// first figure of all others is a number that identifies the row.

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "gpu/backend/backend.h"

namespace {

constexpr std::uint32_t kRefusedWidth = 13;
constexpr std::int32_t kDevices = 4;

std::int32_t open_engine(const driftgate_config* config, void** engine, char* message, std::uint64_t bytes) {
  static int nothing = 0;
  if (config->device >= kDevices) {
    std::snprintf(message, bytes, "there is no device %d", config->device);
    return DRIFTGATE_UNAVAILABLE;
  }
  *engine = &nothing;
  return DRIFTGATE_OK;
}
std::int32_t describe_engine(void*, char* text, std::uint64_t bytes) {
  std::snprintf(text, bytes, "fake");
  return DRIFTGATE_OK;
}
std::int32_t measure(void*, const driftgate_batch*, driftgate_row*, char*, std::uint64_t) {
  return DRIFTGATE_FAILED;
}
void close_engine(void*) {}

std::int32_t hidden_open(void*, const driftgate_hidden_heads* heads, char* message, std::uint64_t bytes) {
  if (heads->width != kRefusedWidth) return DRIFTGATE_OK;
  std::snprintf(message, bytes, "thirteen is too wide");
  return DRIFTGATE_FAILED;
}
std::int32_t hidden_measure(void*, const driftgate_hidden_batch* batch, driftgate_row* rows, char*,
                            std::uint64_t) {
  for (std::uint64_t i = 0; i < batch->rows; ++i) {
    const auto* const row =
        static_cast<const unsigned char*>(batch->inf.data) + i * batch->inf.row_stride_bytes;
    float first = 0;
    std::memcpy(&first, row, sizeof(first));
    rows[i] = {};
    rows[i].values[0] = static_cast<double>(first);
    rows[i].status = i % 3 == 1 ? DRIFTGATE_ROW_NOT_MEASURED : DRIFTGATE_ROW_OK;
  }
  return DRIFTGATE_OK;
}

constexpr driftgate_backend kFake = {sizeof(driftgate_backend),
                                     DRIFTGATE_BACKEND_VERSION,
                                     "fake",
                                     open_engine,
                                     describe_engine,
                                     measure,
                                     close_engine,
                                     nullptr,
                                     nullptr,
                                     hidden_open,
                                     hidden_measure};

}  // namespace

extern "C" __attribute__((visibility("default"))) const driftgate_backend* driftgate_backend_table() {
  return &kFake;
}
