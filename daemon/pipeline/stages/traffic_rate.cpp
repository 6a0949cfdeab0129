#include "daemon/pipeline/stages/traffic_rate.hpp"

#include <algorithm>

#include "daemon/route/table/slice.hpp"

namespace driftgate::pipeline {

void TrafficRate::add(const route::Window& window) {
  Seen seen{window.start_us, window.end_us, window.observations.size(), 0, {}};
  for (const auto& request : window.observations) {
    const auto known = seen.slices.find(request.slice);
    if (known != seen.slices.end())
      ++known->second;
    else if (seen.slices.size() < kMaxSlices)
      seen.slices.emplace(request.slice, 1);
    else
      ++seen.unsorted;
  }
  windows_.push_back(std::move(seen));
  if (windows_.size() > kWindows) windows_.pop_front();
  // A model at rest has no windows for a while: what came before that says nothing of now.
  std::int64_t longest_us = 0;
  for (const auto& one : windows_) longest_us = std::max(longest_us, one.end_us - one.start_us);
  const auto oldest_us = windows_.back().end_us - static_cast<std::int64_t>(kWindows) * longest_us;
  while (windows_.front().end_us < oldest_us) windows_.pop_front();
}

double TrafficRate::per_second(std::uint64_t requests) const {
  if (windows_.empty()) return 0;
  const auto start = std::ranges::min_element(windows_, {}, &Seen::start_us)->start_us;
  const auto end = std::ranges::max_element(windows_, {}, &Seen::end_us)->end_us;
  return end <= start ? 0 : static_cast<double>(requests) * 1e6 / static_cast<double>(end - start);
}

double TrafficRate::requests_per_second() const {
  std::uint64_t requests = 0;
  for (const auto& window : windows_) requests += window.requests;
  return per_second(requests);
}

double TrafficRate::requests_per_second(const std::map<std::string, std::string>& where) const {
  std::uint64_t requests = 0;
  for (const auto& window : windows_) {
    requests += window.unsorted;
    for (const auto& [text, count] : window.slices) {
      const auto slice = route::parse_slice_header(text);
      if (slice && route::matches(where, *slice)) requests += count;
    }
  }
  return per_second(requests);
}

}  // namespace driftgate::pipeline
