#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/table/decide.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

inline constexpr std::size_t kPageModels = 10'000;  ///< pages of it that no model uses take no memory
inline constexpr std::size_t kPageWorkers = 16;
inline constexpr std::size_t kPageArms = 3;

[[nodiscard]] std::string_view to_string(Served arm);

/// What the router counts of one model in memory that outlives it.
struct ModelCounters {
  std::array<std::atomic<std::uint32_t>, kPageArms> in_flight;  ///< routed, and not answered to the end
  std::atomic<std::uint32_t> windows;                           ///< closed and not acknowledged
  std::atomic<std::uint64_t> newest_window;                     ///< number of the newest closed one
  std::atomic<std::uint64_t> kept_requests;                     ///< in windows that are not acknowledged
  std::atomic<std::uint64_t> open_requests;                     ///< routed, and in no closed window yet
};

struct PageLayout;
struct UnmapPage {
  void operator()(PageLayout* page) const;
};
using MappedPage = std::unique_ptr<PageLayout, UnmapPage>;

/// The router's side of memory that it shares with the daemon (a memfd, so that no store ever waits for a
/// disk). What is written here can be read while the router hangs and after it was killed: whether its
/// threads still move, and what it had in flight. Safe from any thread.
class RouterPage {
 public:
  RouterPage(std::string_view router_id, std::size_t workers);

  /// The counters of a model; null for models beyond kPageModels.
  [[nodiscard]] ModelCounters* model(std::string_view name);
  /// Called by the thread of a worker before its first beat.
  void worker_starts(std::size_t worker);
  /// An event loop came round.
  void beat(std::size_t worker);
  void control_starts();
  void set_connections(std::uint32_t open);
  /// The router ends in an orderly way.
  void end();

 private:
  base::UniqueFd file_;
  MappedPage layout_;
  std::mutex mutex_;
  std::map<std::string, ModelCounters*, std::less<>> models_;
};

/// Counts a request as in flight while it lives. A null model counts nothing.
class InFlight {
 public:
  InFlight(ModelCounters* model, Served arm);
  ~InFlight() { end(); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  /// Another engine is asked.
  void move_to(Served arm);
  /// The answer went out to its end.
  void end();

 private:
  ModelCounters* model_;
  Served arm_;
};

struct WorkerSign {
  int tid = 0;
  std::uint64_t beats = 0;
};

struct PageModel {
  std::string model;
  std::array<std::uint32_t, kPageArms> in_flight{};
  std::uint32_t windows = 0;
  std::uint64_t newest_window = 0;
  std::uint64_t kept_requests = 0;
  std::uint64_t open_requests = 0;
};

struct PageContents {
  int pid = 0;
  std::string router_id;
  bool ended = false;  ///< in an orderly way
  std::uint32_t connections = 0;
  std::int64_t beat_us = 0;  ///< wall clock of the newest beat; 0 = none yet
  int control_tid = 0;
  std::vector<WorkerSign> workers;
  std::vector<PageModel> models;
};

/// The daemon's side: a read-only mapping that outlives the router.
class PageView {
 public:
  /// The page of a living process, found among its descriptors; it need not answer. `not_found` when it has
  /// none (a router of an older version, or another user's), `corrupt` when it is of another version.
  static schema::Result<PageView> of_process(int pid);
  [[nodiscard]] std::vector<WorkerSign> workers() const;
  [[nodiscard]] PageContents read() const;

 private:
  PageView(MappedPage layout, std::size_t slots) : layout_(std::move(layout)), slots_(slots) {}
  static schema::Result<PageView> map(int file);
  MappedPage layout_;
  std::size_t slots_ = 0;  ///< for models, in the file that is mapped
};

}  // namespace driftgate::route
