#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "daemon/route/control/telemetry.hpp"

namespace driftgate::pipeline {

/// Requests per second of one model over its last telemetry windows, in all and by slice. Windows that are
/// older than kWindows of the longest of them do not count.
class TrafficRate {
 public:
  static constexpr std::size_t kWindows = 12;  ///< a minute at the usual 5 s
  static constexpr std::size_t kMaxSlices =
      256;  ///< of one window; requests of further slices count for each

  void add(const route::Window& window);
  [[nodiscard]] double requests_per_second() const;
  /// Of requests whose slice has every attribute of `where`.
  [[nodiscard]] double requests_per_second(const std::map<std::string, std::string>& where) const;

 private:
  struct Seen {
    std::int64_t start_us = 0, end_us = 0;
    std::uint64_t requests = 0, unsorted = 0;
    std::map<std::string, std::uint64_t> slices;
  };
  [[nodiscard]] double per_second(std::uint64_t requests) const;

  std::deque<Seen> windows_;
};

}  // namespace driftgate::pipeline
