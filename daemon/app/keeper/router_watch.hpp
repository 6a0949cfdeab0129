#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/control/hang_judge.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/worker/process_threads.hpp"
#include "daemon/route/worker/router_page.hpp"

namespace driftgate::app {

/// One router process under watch: its end is an event on `process_fd`, and that it hangs is found by `look`.
/// Used by one thread; nothing here waits.
class RouterWatch final : private route::RouterSigns {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Connects to the control socket. `unavailable` when nobody listens there.
  static schema::Result<RouterWatch> attach(const std::string& control_path, route::HangLimits limits = {});

  [[nodiscard]] const route::ProcessHandle& process() const { return process_; }
  /// Readable when the router answered a question or closed the connection; −1 while there is none.
  [[nodiscard]] int socket() const { return socket_.get(); }
  /// Takes what came on `socket`.
  void on_readable();
  /// Called every `HangLimits::look_every`: asks the router, and says why it hangs when it does.
  [[nodiscard]] std::optional<std::string> look(Time now);
  /// When it was last seen to move.
  [[nodiscard]] Time hung_since() const { return judge_.since(); }
  /// Nothing for a router of an older version.
  [[nodiscard]] std::optional<route::PageContents> page() const;
  /// True once the router has answered a question of this watch.
  [[nodiscard]] bool answered() const { return answered_; }

 private:
  RouterWatch(std::string control_path, route::HangLimits limits, base::UniqueFd socket,
              route::ProcessHandle process);
  std::vector<route::WorkerSign> workers() override;
  std::vector<route::ThreadState> threads() override;
  int control_tid() override;
  int unanswered() override { return unanswered_; }
  void ask(Time now);

  std::string control_path_;
  route::HangLimits limits_;
  base::UniqueFd socket_;
  route::ProcessHandle process_;
  std::optional<route::PageView> page_;
  route::HangJudge judge_;
  std::string received_;
  std::optional<Time> asked_;
  Time last_look_{};
  int unanswered_ = 0;
  bool answered_ = false;
};

}  // namespace driftgate::app
