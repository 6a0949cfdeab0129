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
/// Bytes of one rank in one exchange.
inline constexpr std::size_t kMaxExchangeBytes = std::size_t{1} << 30;

/// What is exchanged, in words for errors ("pass 1 of rows 0 to 511"), and how long a rank waits for it.
struct Wait {
  std::string what;
  std::chrono::milliseconds timeout = kDefaultRankTimeout;
};

/// The error of a wait that ended without its end: operation, what was exchanged, cause, rank.
[[nodiscard]] schema::Error rank_error(schema::ErrorCode code, const char* operation, const Wait& wait,
                                       const std::string& cause, std::uint32_t rank, std::uint32_t size);
/// The same error said of a rank: "… (at rank 2 of 4)", unless it already names one.
[[nodiscard]] schema::Error at_rank(const schema::Error& error, std::uint32_t rank, std::uint32_t size);

/// The rank that an error names; nothing when it names none.
[[nodiscard]] std::optional<std::uint32_t> rank_of(const schema::Error& error);

/// Ranks that exchange bytes. Every rank makes the same calls in the same order, one at a time, though not
/// always from the same thread. A wait ends at its deadline or when a rank that it waits for has left or
/// died; its error names the rank, the operation and the cause. After an error only `leave` may be called.
class Collective {
 public:
  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t size() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "threads", "mpi", "nccl"

  /// `all` receives what every rank gave, in rank order: size()·mine.size() bytes. The same number of bytes
  /// on every rank.
  [[nodiscard]] virtual schema::Result<void> all_gather(const Wait& wait, std::span<const std::byte> mine,
                                                        std::span<std::byte> all) = 0;
  /// The same for rank 0 alone; elsewhere `all` is empty.
  [[nodiscard]] virtual schema::Result<void> gather(const Wait& wait, std::span<const std::byte> mine,
                                                    std::span<std::byte> all) = 0;
  /// The bytes of rank 0, for every rank.
  [[nodiscard]] virtual schema::Result<void> broadcast(const Wait& wait, std::span<std::byte> bytes) = 0;
  /// all_gather or gather in two calls, so that a rank goes on while the others' parts are on their way.
  /// `begin` gives this rank's part and does not wait for theirs; `finish` of the number that it returned is
  /// the rest, in any order. A few may be begun at a time. Only where `in_steps`.
  [[nodiscard]] virtual bool in_steps() const { return false; }
  enum class Gathering : std::uint8_t { at_all, at_root };
  [[nodiscard]] virtual schema::Result<std::uint64_t> begin(Gathering gathering, const Wait& wait,
                                                            std::span<const std::byte> mine);
  [[nodiscard]] virtual schema::Result<void> finish(std::uint64_t number, const Wait& wait,
                                                    std::span<std::byte> all);
  /// Tells the others that this rank gives up, and why: what they wait for, now and later, ends with this
  /// error (`at_rank`), and so does a wait of this rank in another thread. Does not wait for them. A second
  /// call does nothing.
  virtual void leave(const schema::Error& error) = 0;
  /// The last call. After `leave` this ends every process of the job with that exit code and may not return.
  virtual void close(int exit_code);

  /// Returns when every rank is here.
  [[nodiscard]] schema::Result<void> barrier(const Wait& wait);
  /// The text of every rank, of any length, at rank 0; elsewhere nothing. Limit: kMaxExchangeBytes each.
  [[nodiscard]] schema::Result<std::vector<std::string>> gather_text(const Wait& wait,
                                                                     const std::string& mine);
};

}  // namespace driftgate::gpu
