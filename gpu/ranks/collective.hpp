#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::chrono::milliseconds kDefaultRankTimeout{60'000};
inline constexpr std::uint32_t kMaxRanks = 1'024;
/// Limit on the bytes of one rank in one exchange.
inline constexpr std::size_t kMaxExchangeBytes = std::size_t{1} << 30;

/// What is exchanged, for error messages ("pass 1 of rows 0 to 511"), and how long a rank waits for the
/// others.
struct Wait {
  std::string what;
  std::chrono::milliseconds timeout = kDefaultRankTimeout;
};

/// The error of an exchange that did not complete: operation, what was exchanged, cause and rank.
[[nodiscard]] schema::Error rank_error(schema::ErrorCode code, const char* operation, const Wait& wait,
                                       const std::string& cause, std::uint32_t rank, std::uint32_t size);
/// The same error, attributed to a rank: "… (at rank 2 of 4)". Unchanged if it already names a rank.
[[nodiscard]] schema::Error at_rank(const schema::Error& error, std::uint32_t rank, std::uint32_t size);

/// The rank that an error is attributed to; nothing when there is none.
[[nodiscard]] std::optional<std::uint32_t> rank_of(const schema::Error& error);

/// A group of ranks that exchange bytes. Every rank makes the same calls in the same order, one at a time,
/// though not always from the same thread. A wait ends at its deadline, or when a rank that it waits for has
/// left or its process has ended; the error names the rank, the operation and the cause. After an error only
/// `leave` and `close` may be called.
class Collective {
 public:
  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t size() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "threads", "mpi", "nccl"

  /// Gathers `mine` of every rank into `all`, in rank order: size()·mine.size() bytes. Every rank passes the
  /// same number of bytes.
  [[nodiscard]] virtual schema::Result<void> all_gather(const Wait& wait, std::span<const std::byte> mine,
                                                        std::span<std::byte> all) = 0;
  /// As all_gather, but only rank 0 receives; `all` is empty at other ranks.
  [[nodiscard]] virtual schema::Result<void> gather(const Wait& wait, std::span<const std::byte> mine,
                                                    std::span<std::byte> all) = 0;
  /// Copies the bytes of rank 0 to every rank.
  [[nodiscard]] virtual schema::Result<void> broadcast(const Wait& wait, std::span<std::byte> bytes) = 0;
  /// An all_gather or gather in two calls, so that a rank can compute while the parts of the others are under
  /// way. `begin` passes the part of this rank and does not wait; `finish`, with the number that `begin`
  /// returned, waits for the parts of the others. Several exchanges may be begun before they are finished,
  /// and they may be finished in any order. Only where `in_steps()`.
  [[nodiscard]] virtual bool in_steps() const { return false; }
  enum class Gathering : std::uint8_t { at_all, at_root };
  [[nodiscard]] virtual schema::Result<std::uint64_t> begin(Gathering gathering, const Wait& wait,
                                                            std::span<const std::byte> mine);
  [[nodiscard]] virtual schema::Result<void> finish(std::uint64_t number, const Wait& wait,
                                                    std::span<std::byte> all);
  /// Tells the other ranks that this rank has failed, and why: their current and later waits, and a wait of
  /// this rank in another thread, end with this error (see `at_rank`). Does not wait for them. A second call
  /// does nothing.
  virtual void leave(const schema::Error& error) = 0;
  /// The last call. After `leave` it ends every process of the job with this exit code and may not return.
  virtual void close(int exit_code);

  /// Returns when every rank has called it.
  [[nodiscard]] schema::Result<void> barrier(const Wait& wait);
  /// Gathers one text of each rank, of any length up to kMaxExchangeBytes, at rank 0; returns nothing at
  /// other ranks.
  [[nodiscard]] schema::Result<std::vector<std::string>> gather_text(const Wait& wait,
                                                                     const std::string& mine);
};

}  // namespace driftgate::gpu
