#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/route/haproxy/arrivals.hpp"
#include "daemon/route/haproxy/log_line.hpp"
#include "daemon/route/table/route.hpp"
#include "daemon/route/worker/ledger.hpp"

namespace driftgate::route::haproxy {

/// What HAProxy has counted of a backend when it was looked at.
struct Counted {
  std::uint64_t boot = 0;  ///< of the process
  std::string backend;
  std::string model;
  std::optional<std::uint32_t> routed;  ///< number of the last request; nothing: there was none yet
  std::uint64_t in_flight = 0;          ///< requests that are not over
};

/// Turns HAProxy's log lines into the router's telemetry. Safe from any thread.
class LogBook {
 public:
  using Time = Arrivals::Time;

  /// Lines are listened for from `since_us` (wall clock) on: a HAProxy that was configured later has all of
  /// its lines here.
  LogBook(Ledger& ledger, std::chrono::milliseconds deadline, std::int64_t since_us)
      : ledger_(ledger), deadline_(deadline), since_us_(since_us) {}

  /// Requests that show this route's tag on this backend belong to its model and stage.
  void note_route(const ObservedRoute& route, const std::string& backend);
  /// The running process has routed `orders` requests by backend so far. Has an effect once for each process.
  void note_process(std::uint64_t boot, const std::map<std::string, std::uint32_t>& orders);
  void add(LogLine line, Time now);
  /// Releases what need not wait any more.
  void tick(Time now);
  /// Compares the lines of a backend with what HAProxy has counted. `dropped`: datagrams that HAProxy could
  /// not send, or that the socket had no room for, since lines are listened for. What was lost is counted for
  /// the model: requests past their deadline that are more than those in flight, or as many as datagrams were
  /// dropped.
  void compare(const Counted& counted, std::uint64_t dropped, Time now);

 private:
  static constexpr std::size_t kMaxProcesses = 4;
  static constexpr std::size_t kMaxRoutes = 1'024;

  struct Note {
    std::string model;
    std::string stage_key;
  };
  struct Lines {
    Arrivals arrivals;
    std::uint64_t beyond = 0;  ///< overdue and not in flight, at the last comparison
    std::uint64_t lost = 0;    ///< so many were told of
  };
  struct Process {
    bool noted = false;
    std::map<std::string, std::uint32_t> orders;  ///< when it was noted
    std::map<std::string, Lines> backends;
  };
  using Key = std::pair<std::string, std::string>;  ///< backend, tag

  [[nodiscard]] bool heard_from_start(std::uint64_t boot) const;
  Process& process(std::uint64_t boot);
  Lines& lines(std::uint64_t boot, const std::string& backend, std::uint32_t base);
  void release(Lines& lines, Time now);
  void emit(const LogLine& line);

  Ledger& ledger_;
  const std::chrono::milliseconds deadline_;
  const std::int64_t since_us_;
  std::mutex mutex_;
  std::map<Key, Note> notes_;
  std::deque<Key> noted_;  ///< oldest first
  std::map<std::uint64_t, Process> processes_;
};

}  // namespace driftgate::route::haproxy
