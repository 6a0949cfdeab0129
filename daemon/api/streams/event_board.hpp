#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api/ports.hpp"
#include "daemon/pipeline/service.hpp"

namespace driftgate::api {

/// What streams over all promotions look at: each entry is read and shortened once, and the open promotions are read
/// once for each group of transactions that is committed, however many streams there are. Thread-safe.
class EventBoard {
 public:
  using Text = std::shared_ptr<const std::string>;
  /// An entry of the log as streams tell it.
  struct Told {
    std::int64_t seq = 0;
    std::string kind;
    Text whole;      ///< its exact bytes, for those who may read the log
    Text shortened;  ///< what everybody may see of it; null: nothing
  };
  /// The items of all open promotions by id, and those that ended lately as they were then.
  struct Look {
    std::map<std::string, Text> open{}, ended{};
  };

  /// `commits` counts the transactions that were committed: while it stays the same nothing is read again,
  /// but for the progress of jobs, once a second. Without it everything is read each time.
  EventBoard(pipeline::Service& service, EvidencePort& evidence, std::function<std::uint64_t()> commits,
             std::function<std::int64_t()> now_us);

  /// The number of entries in the log.
  [[nodiscard]] Result<std::uint64_t> size();
  /// Entries behind `after` in their order, at most `limit`; fewer at the end of the log.
  [[nodiscard]] Result<std::vector<Told>> entries_after(std::int64_t after, std::size_t limit);
  [[nodiscard]] Result<std::shared_ptr<const Look>> look();

 private:
  [[nodiscard]] Result<void> read_log();
  void keep(Told entry);
  [[nodiscard]] Result<std::shared_ptr<const Look>> look_again();
  void keep_ended(Look& next, const Look& before);

  pipeline::Service& service_;
  EvidencePort& evidence_;
  const std::function<std::uint64_t()> commits_;
  const std::function<std::int64_t()> now_us_;

  std::mutex log_mutex_;
  std::optional<std::uint64_t> log_read_at_;  ///< the count of commits before the newest reading
  std::uint64_t size_ = 0;
  bool begun_ = false;
  std::deque<Told> recent_;  ///< the newest entries, without a gap
  std::size_t recent_bytes_ = 0;

  std::mutex look_mutex_;
  std::optional<std::uint64_t> looked_at_;
  std::int64_t looked_us_ = 0;
  std::shared_ptr<const Look> look_;
  std::deque<std::string> ended_order_;
};

}  // namespace driftgate::api
