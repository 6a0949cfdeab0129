#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/window_change.hpp"

namespace driftgate::pipeline {

/// Closed windows on their way from the data plane into the store. Those that came together are decided one
/// by one and committed in one transaction, at most one of each model, those of running stages first; a
/// decision that ends a promotion or gives its candidate no larger share is committed and carried out at once
/// and alone, the others when all that came is stored. A window that cannot be taken now waits in memory and
/// holds up its own model alone: the router's watermark stays below it, what is behind it of other models is
/// acknowledged by model, and what its own model has beyond a limit is left with the data plane. Belongs to
/// the loop's thread.
class Telemetry {
 public:
  /// `settle` carries out what follows from a commit.
  Telemetry(Context& context, std::function<void()> settle) : context_(context), settle_(std::move(settle)) {}

  /// Reads closed windows, consumes them and acknowledges what is stored.
  void read();
  [[nodiscard]] std::size_t windows_seen() const { return windows_seen_; }
  /// Requests in these windows that are not judged, and those of them that failed.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> others_seen() const { return others_seen_; }

 private:
  struct Waiting {
    route::Window window;
    bool noted = false;  ///< by note_window
    bool done = false;   ///< stored: to be forgotten
  };
  struct Decided {
    Waiting* waiting = nullptr;
    WindowChange change;
  };
  struct Router {
    std::uint64_t read = 0;          ///< up to here windows are stored or wait
    std::uint64_t acknowledged = 0;  ///< to the data plane
    /// By model that was held up and has left windows with the data plane: the first of them.
    std::map<std::string, std::uint64_t, std::less<>> left;
    /// By model: its newest stored window, where that is not acknowledged.
    std::map<std::string, std::uint64_t> stored;
  };
  /// What waits of one model.
  struct Held {
    std::size_t windows = 0;
    std::size_t observations = 0;
  };
  using HeldByModel = std::map<std::string, Held, std::less<>>;

  bool fetch();
  /// What waits now, by model.
  [[nodiscard]] HeldByModel held() const;
  void read_again(const HeldByModel& held);
  [[nodiscard]] bool is_wanted(const route::Window& window, HeldByModel& held);
  void end_page(std::uint64_t newest);
  void consume();
  std::vector<Waiting*> next_batch();
  void settle_stored();
  void take(std::vector<Waiting*> batch);
  schema::Result<std::vector<Consumed>> read_consumed(const std::vector<Waiting*>& batch);
  [[nodiscard]] bool is_urgent(const Decided& decided) const;
  void commit_at_once(Decided decided);
  void commit_alone(Decided decided);
  void commit_together(std::vector<Decided> decided);
  Work put_watermarks(const std::set<const Waiting*>& done) const;
  [[nodiscard]] std::uint64_t watermark(const std::string& router,
                                        const std::set<const Waiting*>& done) const;
  void committed(Decided& decided);
  void note_stored(const route::Window& window);
  void refused(Decided& decided, const schema::Error& error);
  void warn_not_stored(const route::Window& window, const schema::Error& error);
  void acknowledge();
  void acknowledge_models(const std::string& id, Router& router);
  void forget_idle_routers();

  Context& context_;
  std::function<void()> settle_;
  route::WindowPosition last_;
  std::deque<Waiting> waiting_;               ///< in the order in which they were read
  std::set<std::string, std::less<>> stuck_;  ///< models whose next window could not be taken in this read
  std::map<std::string, Router, std::less<>> routers_;
  std::set<std::string, std::less<>> unsettled_;  ///< models of windows whose effects are not carried out
  std::optional<route::WindowPosition> again_;    ///< where windows that were left are being read
  std::uint64_t again_from_ = 0;                  ///< and where that began
  std::set<std::string, std::less<>> left_again_;  ///< models that left windows since that began
  std::size_t windows_seen_ = 0;
  std::pair<std::uint64_t, std::uint64_t> others_seen_{0, 0};
};

}  // namespace driftgate::pipeline
