#include "gpu/backend/backend_loader.hpp"

#include <dlfcn.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>

#include "gpu/cpu/cpu_backend.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::size_t kMessageBytes = 1'024;
/// The part of the table that every library of this version must fill in; later members are optional.
constexpr std::size_t kLeastTableBytes =
    offsetof(driftgate_backend, close) + sizeof(driftgate_backend::close);
using Message = std::array<char, kMessageBytes>;

std::unexpected<schema::Error> failed(std::int32_t status, const driftgate_backend& table,
                                      const Message& message) {
  const ErrorCode code = status == DRIFTGATE_INVALID       ? ErrorCode::invalid_argument
                         : status == DRIFTGATE_UNAVAILABLE ? ErrorCode::unavailable
                                                           : ErrorCode::internal;
  return schema::fail(code, std::string("the ") + table.name + " backend reports: " + message.data());
}

Result<std::int32_t> device_index(std::string_view device) {
  if (device == "cuda") return 0;
  std::int32_t index = -1;
  if (device.starts_with("cuda:")) {
    const std::string_view digits = device.substr(5);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc{} && end == digits.data() + digits.size() && index >= 0) return index;
  }
  return schema::fail(ErrorCode::invalid_argument,
                      "device '" + std::string(device) + "' is not one of cpu, cuda and cuda:N");
}

}  // namespace

struct Backend::State {
  const driftgate_backend* table = nullptr;
  void* engine = nullptr;
  void* library = nullptr;
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (engine != nullptr) table->close(engine);
    if (library != nullptr) ::dlclose(library);
  }
};

namespace {

Result<const driftgate_backend*> load_table(const std::string& library, void*& handle) {
  std::error_code ignored;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / library;
  const bool found = !library.contains('/') && std::filesystem::exists(beside, ignored);
  // The CUDA runtime, which the library contains, does not support being unloaded before the process ends.
  handle = ::dlopen(found ? beside.c_str() : library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return schema::fail(ErrorCode::unavailable, "device cuda was requested, but its backend " + library +
                                                    " cannot be loaded (" +
                                                    (reason == nullptr ? "no reason given" : reason) +
                                                    "); build it with the CUDA toolkit, or use --device cpu");
  }
  const auto entry = reinterpret_cast<driftgate_backend_fn>(::dlsym(handle, DRIFTGATE_BACKEND_SYMBOL));
  const driftgate_backend* table = entry == nullptr ? nullptr : entry();
  if (table == nullptr) {
    return schema::fail(ErrorCode::unsupported, library + " has no function " DRIFTGATE_BACKEND_SYMBOL);
  }
  if (table->version != DRIFTGATE_BACKEND_VERSION || table->struct_size < kLeastTableBytes) {
    return schema::fail(ErrorCode::unsupported,
                        library + " has interface version " + std::to_string(table->version) +
                            ", but this program needs version " + std::to_string(DRIFTGATE_BACKEND_VERSION) +
                            "; use a program and a library of the same build");
  }
  return table;
}

}  // namespace

Result<Backend> Backend::open(std::string_view device, std::uint32_t threads, std::uint32_t top_k,
                              const std::string& library, std::uint32_t metrics) {
  auto state = std::make_shared<State>();
  driftgate_config config{sizeof(driftgate_config), 0, threads, top_k, metrics};
  if (device == "cpu") {
    state->table = cpu::backend_table();
  } else {
    auto index = TRY(device_index(device));
    auto table = TRY(load_table(library, state->library));
    state->table = table;
    config.device = index;
  }
  Message message{};
  const std::int32_t status = state->table->open(&config, &state->engine, message.data(), message.size());
  if (status != DRIFTGATE_OK) return failed(status, *state->table, message);
  return Backend(std::move(state));
}

std::string Backend::describe() const {
  Message text{};
  state_->table->describe(state_->engine, text.data(), text.size());
  return text.data();
}

std::string Backend::arithmetic() const {
  const std::string text = describe();
  const auto first = text.find(", ");
  if (first == std::string::npos) return text;
  return text.starts_with("cpu") ? text.substr(0, text.rfind(", ")) : "cuda" + text.substr(first);
}

Result<void> Backend::measure(const driftgate_batch& batch, std::span<driftgate_row> rows) {
  Message message{};
  const std::int32_t status =
      state_->table->measure(state_->engine, &batch, rows.data(), message.data(), message.size());
  if (status != DRIFTGATE_OK) return failed(status, *state_->table, message);
  return {};
}

bool Backend::can_shard() const {
  constexpr std::size_t kNeeded =
      offsetof(driftgate_backend, shard_pass2) + sizeof(driftgate_backend::shard_pass2);
  const driftgate_backend& table = *state_->table;
  return table.struct_size >= kNeeded && table.shard_pass1 != nullptr && table.shard_pass2 != nullptr;
}

Result<void> Backend::shard_pass1(const driftgate_batch& batch, const driftgate_shard& shard,
                                  std::span<driftgate_shard_partial> partials,
                                  std::span<driftgate_top_entry> top) {
  Message message{};
  const std::int32_t status = state_->table->shard_pass1(state_->engine, &batch, &shard, partials.data(),
                                                         top.data(), message.data(), message.size());
  if (status != DRIFTGATE_OK) return failed(status, *state_->table, message);
  return {};
}

Result<void> Backend::shard_pass2(const driftgate_batch& batch, const driftgate_shard& shard,
                                  std::span<const driftgate_shard_row> rows,
                                  std::span<driftgate_shard_terms> terms) {
  Message message{};
  const std::int32_t status = state_->table->shard_pass2(state_->engine, &batch, &shard, rows.data(),
                                                         terms.data(), message.data(), message.size());
  if (status != DRIFTGATE_OK) return failed(status, *state_->table, message);
  return {};
}

bool Backend::can_measure_hidden() const {
  constexpr std::size_t kNeeded =
      offsetof(driftgate_backend, hidden_measure) + sizeof(driftgate_backend::hidden_measure);
  const driftgate_backend& table = *state_->table;
  return table.struct_size >= kNeeded && table.hidden_open != nullptr && table.hidden_measure != nullptr;
}

Result<void> Backend::open_hidden(const driftgate_hidden_heads& heads) {
  Message message{};
  const std::int32_t status =
      state_->table->hidden_open(state_->engine, &heads, message.data(), message.size());
  if (status != DRIFTGATE_OK) return failed(status, *state_->table, message);
  return {};
}

Result<void> Backend::measure_hidden(const driftgate_hidden_batch& batch, std::span<driftgate_row> rows) {
  Message message{};
  const std::int32_t status =
      state_->table->hidden_measure(state_->engine, &batch, rows.data(), message.data(), message.size());
  if (status != DRIFTGATE_OK) return failed(status, *state_->table, message);
  return {};
}

}  // namespace driftgate::gpu
