#include "gpu/ranks/collective_loader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "gpu/backend/plugin_library.hpp"
#include "gpu/ranks/collective_plugin.h"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;
using std::chrono::milliseconds;

namespace {

using Table = driftgate_collective;

struct Plugin {
  PluginLibrary library;
  const Table* table;
};

/// `purpose`: what was requested, for error messages.
Result<Plugin> load(const std::string& name, const std::string& purpose, const std::string& remedy) {
  auto library = PluginLibrary::open(name);
  if (!library) {
    return schema::fail(ErrorCode::unavailable,
                        fmt::format("{}, but the library {} cannot be loaded ({}); {}", purpose, name,
                                    library.error().message, remedy));
  }
  const auto entry = reinterpret_cast<driftgate_collective_fn>(library->symbol(DRIFTGATE_COLLECTIVE_SYMBOL));
  const Table* table = entry == nullptr ? nullptr : entry();
  if (table == nullptr) {
    return schema::fail(ErrorCode::unsupported, name + " has no function " DRIFTGATE_COLLECTIVE_SYMBOL);
  }
  if (table->version != DRIFTGATE_COLLECTIVE_VERSION || table->struct_size < sizeof(Table)) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("{} has interface version {}, but this program needs version {}; use a "
                                    "program and a library of the same build",
                                    name, table->version, DRIFTGATE_COLLECTIVE_VERSION));
  }
  return Plugin{std::move(*library), table};
}

std::uint32_t milliseconds_of(milliseconds timeout) {
  return static_cast<std::uint32_t>(std::clamp<milliseconds::rep>(timeout.count(), 1, UINT32_MAX));
}

/// Converts a fault to an error of `operation`; where the library names no rank, it is attributed to this
/// rank, `self`.
schema::Error error_of(const driftgate_fault& fault, const char* operation, const Wait& wait,
                       std::uint32_t self, std::uint32_t size) {
  const std::uint32_t rank = fault.rank < 0 ? self : static_cast<std::uint32_t>(fault.rank);
  switch (fault.kind) {
    case DRIFTGATE_FAULT_LEFT: {
      const bool known = fault.error_code <= static_cast<std::uint32_t>(ErrorCode::internal);
      const ErrorCode code = known ? static_cast<ErrorCode>(fault.error_code) : ErrorCode::internal;
      return {code, fault.cause, fmt::format("rank {} of {}", rank, size), nullptr};
    }
    case DRIFTGATE_FAULT_DEADLINE:
      if (fault.rank < 0) {
        return rank_error(ErrorCode::deadline_exceeded, operation, wait,
                          fmt::format("not every rank took part within {:.3g} s",
                                      std::chrono::duration<double>(wait.timeout).count()),
                          rank, size);
      }
      return rank_error(ErrorCode::deadline_exceeded, operation, wait,
                        fmt::format("the rank did not respond within {:.3g} s",
                                    std::chrono::duration<double>(wait.timeout).count()),
                        rank, size);
    case DRIFTGATE_FAULT_DIED:
    case DRIFTGATE_FAULT_ENDED:
    case DRIFTGATE_FAULT_ABSENT:
      return rank_error(ErrorCode::unavailable, operation, wait, fault.cause, rank, size);
    default:
      return rank_error(ErrorCode::internal, operation, wait, fault.cause, rank, size);
  }
}

class PluginCollective final : public Collective {
 public:
  PluginCollective(Plugin plugin, void* handle) : plugin_(std::move(plugin)), handle_(handle) {
    plugin_.table->place(handle_, &rank_, &size_);
  }
  ~PluginCollective() override { end(kExitCodeWithoutClose); }
  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t size() const override { return size_; }
  [[nodiscard]] std::string name() const override { return plugin_.table->name; }

  Result<void> all_gather(const Wait& wait, std::span<const std::byte> mine,
                          std::span<std::byte> all) override {
    driftgate_fault fault{};
    const std::int32_t kind = plugin_.table->all_gather(handle_, milliseconds_of(wait.timeout), mine.data(),
                                                        mine.size(), all.data(), &fault);
    return result(kind, fault, "all_gather", wait);
  }
  Result<void> gather(const Wait& wait, std::span<const std::byte> mine, std::span<std::byte> all) override {
    driftgate_fault fault{};
    const std::int32_t kind = plugin_.table->gather(handle_, milliseconds_of(wait.timeout), mine.data(),
                                                    mine.size(), all.data(), &fault);
    return result(kind, fault, "gather", wait);
  }
  Result<void> broadcast(const Wait& wait, std::span<std::byte> bytes) override {
    driftgate_fault fault{};
    const std::int32_t kind =
        plugin_.table->broadcast(handle_, milliseconds_of(wait.timeout), bytes.data(), bytes.size(), &fault);
    return result(kind, fault, "broadcast", wait);
  }
  void leave(const schema::Error& error) override {
    const schema::Error named = at_rank(error, rank_, size_);
    plugin_.table->leave(handle_, static_cast<std::uint32_t>(named.code),
                         static_cast<std::int32_t>(rank_of(named).value_or(rank_)), named.message.c_str());
  }
  void close(int exit_code) override { end(exit_code); }

 private:
  static constexpr int kExitCodeWithoutClose = 4;
  Result<void> result(std::int32_t kind, const driftgate_fault& fault, const char* operation,
                      const Wait& wait) const {
    if (kind == DRIFTGATE_FAULT_NONE) return {};
    return std::unexpected(error_of(fault, operation, wait, rank_, size_));
  }
  void end(int exit_code) {
    if (handle_ != nullptr) plugin_.table->close(handle_, exit_code);
    handle_ = nullptr;
  }
  Plugin plugin_;
  void* handle_;
  std::uint32_t rank_ = 0, size_ = 1;
};

/// The first of some environment variables that is a number.
std::optional<std::uint32_t> number_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    std::uint32_t number = 0;
    const std::string_view digits(text);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc{} && end == digits.data() + digits.size()) return number;
  }
  return std::nullopt;
}

/// Slurm says "2(x3),1": of two tasks on three nodes and one on the fourth. srun does not say which node is
/// this one, so that the most count.
std::uint32_t most_tasks_of_a_node() {
  const char* const text = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  std::uint32_t most = 1;
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const auto part = rest.substr(0, rest.find(','));
    std::uint32_t number = 0;
    (void)std::from_chars(part.data(), part.data() + part.size(), number);
    most = std::max(most, number);
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return most;
}

Result<std::unique_ptr<Collective>> start(Plugin plugin, const driftgate_collective_config& config,
                                          milliseconds timeout) {
  driftgate_fault fault{};
  void* handle = nullptr;
  if (plugin.table->open(&config, &handle, &fault) != DRIFTGATE_FAULT_NONE) {
    return std::unexpected(error_of(fault, plugin.table->name, {"starting the ranks", timeout}, config.rank,
                                    std::max(1U, config.size)));
  }
  return std::make_unique<PluginCollective>(std::move(plugin), handle);
}

}  // namespace

bool started_by_mpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr;
}

std::uint32_t launched_size() {
  return std::max(1U,
                  number_of({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1));
}

std::uint32_t local_rank() {
  return number_of({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}).value_or(0);
}

std::uint32_t local_size() {
  if (const auto known = number_of({"OMPI_COMM_WORLD_LOCAL_SIZE"})) return std::max(1U, *known);
  return most_tasks_of_a_node();
}

Result<std::unique_ptr<Collective>> open_mpi(milliseconds timeout, const std::string& library) {
  auto plugin = TRY(load(library, "ranks over MPI were requested",
                         "build it with libopenmpi-dev installed, or start one process with --ranks N"));
  driftgate_collective_config config{};
  config.struct_size = sizeof(config);
  config.timeout_ms = milliseconds_of(timeout);
  return start(std::move(plugin), config, timeout);
}

Result<std::unique_ptr<Collective>> open_nccl(Collective& bootstrap, std::int32_t device,
                                              milliseconds timeout, const std::string& library) {
  auto plugin = TRY(load(library, "an exchange over NCCL was requested",
                         "build it with NCCL installed, or exchange over MPI or between threads"));
  driftgate_collective_config config{};
  config.struct_size = sizeof(config);
  config.rank = bootstrap.rank();
  config.size = bootstrap.size();
  config.device = device;
  config.timeout_ms = milliseconds_of(timeout);
  driftgate_fault fault{};
  if (bootstrap.rank() == 0 && plugin.table->make_id(config.id, &fault) != DRIFTGATE_FAULT_NONE)
    return std::unexpected(
        error_of(fault, "nccl", {"creating an id for the ranks", timeout}, 0, config.size));
  if (auto ok = bootstrap.broadcast({"the id of NCCL's ranks", timeout},
                                    std::as_writable_bytes(std::span(config.id)));
      !ok) {
    return std::unexpected(ok.error());
  }
  return start(std::move(plugin), config, timeout);
}

}  // namespace driftgate::gpu
