#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/pipeline/clock.hpp"
#include "daemon/pipeline/committer.hpp"
#include "daemon/route/control/driver.hpp"

namespace driftgate::pipeline::fakes {

/// Time that only the test moves.
class FakeClock final : public Clock {
 public:
  std::int64_t now_us() override { return now_us_; }
  std::int64_t wall_offset_us() override { return offset_us_; }
  void advance_ms(std::int64_t ms) { now_us_ += ms * 1'000; }
  std::int64_t now_us_ = 1'800'000'000'000'000;
  std::int64_t offset_us_ = 0;
};

/// Told of each durable step, before it (`done` false) and after it. It may throw: then the rest does not happen.
using OnStep = std::function<void(const std::string& what, bool done)>;

/// A data plane in memory, with requests that the test sends through it.
class FakeDriver final : public route::Driver {
 public:
  route::Capabilities capabilities() const override { return can; }
  schema::Result<void> apply(const route::ModelRoute& route) override;
  schema::Result<std::vector<route::ObservedRoute>> observe() override;
  schema::Result<void> heartbeat() override;
  schema::Result<std::vector<route::Window>> windows(const route::WindowPosition& after,
                                                    std::size_t limit) override;
  schema::Result<void> acknowledge(const route::WindowPosition& position) override;
  schema::Result<void> acknowledge_models(const std::string& router,
                                          const std::map<std::string, std::uint64_t>& models) override;
  schema::Result<route::HealthReport> health(const route::WindowPosition& after) override;
  schema::Result<std::string> spool_path(const std::string& stage_key) override;
  schema::Result<void> drop_spool(const std::string& stage_key) override;

  /// Sends `count` requests with new keys of `model` through the route and closes a window; every fourth is
  /// German. The candidate fails each request for which `fails(k, slice)` holds, k counting the requests that
  /// it was asked.
  void serve(const std::string& model, std::size_t count, std::int64_t now_us,
             const std::function<bool(std::uint64_t, const std::string&)>& fails = {});
  /// The breaker of an engine opens, or closes again.
  void open_breaker(const std::string& url, std::int64_t now_us, const std::string& reason = "first_byte");
  void close_breaker(const std::string& url, std::int64_t now_us);
  [[nodiscard]] std::uint32_t share(const std::string& model) const;
  schema::Result<void> apply_now(const route::ModelRoute& route);  ///< without on_step

  route::Capabilities can{.plane = "fake",
                          .basis_points = true,
                          .sticky_monotone = true,
                          .slices = true,
                          .mirror_response = true,
                          .mirror_isolated = true,
                          .read_back = true,
                          .atomic = true,
                          .per_arm_latency = true,
                          .token_times = true,
                          .prompt_length = true,
                          .watches_incumbent = true,
                          .engine_access = true,
                          .max_mirrored_body_bytes = 1u << 20};
  OnStep on_step;       ///< route applied, telemetry acknowledged
  bool broken = false;  ///< every call fails
  bool lies = false;    ///< apply says ok and changes nothing
  bool keeps_no_answers = false;  ///< a route that copies requests without a candidate is refused
  std::map<std::string, route::ObservedRoute> routes;
  std::vector<route::ModelRoute> applied;  ///< in order
  std::vector<std::string> dropped;        ///< stage keys of spools, in order
  std::vector<route::Window> closed;
  std::map<std::string, std::uint64_t> last_number;  ///< by model
  std::uint64_t next_number = 1, next_order = 1, candidate_requests = 0;
  std::uint64_t fallback_requests = 0, german_candidate_requests = 0;
  std::string router_id = "router-1";
  std::map<std::string, std::int64_t> opened_us;  ///< by URL of an engine whose breaker is open
  std::vector<std::string> half_open;             ///< those of them that are tried
  std::vector<route::BreakerEvent> breaker_events;
  std::function<std::int64_t()> clock_us;  ///< for how long breakers are open
  std::function<bool(std::uint64_t)> incumbent_fails;  ///< by the order of the request
  mutable std::mutex mutex;
  std::condition_variable changed;
};

/// Jobs that end when the test says so, with results of its making.
class FakeRunner final : public jobs::JobRunner {
 public:
  explicit FakeRunner(std::string root) : root_(std::move(root)) {}
  void on_done(std::function<void(jobs::JobDone)> callback) override { callback_ = std::move(callback); }
  schema::Result<void> start(const jobs::JobSpec& spec) override;
  /// The job ends with an error at the next `finish_all`.
  void cancel(const std::string& key) override;
  std::optional<jobs::JobProgress> progress(const std::string&) override {
    return jobs::JobProgress{1, 2, "rows", "half"};
  }
  std::optional<jobs::JobPlace> place(const std::string& key) override;
  void forget(const std::string& prefix) override;
  void drop_left(jobs::FateOf fate_of) override { fate = std::move(fate_of); }
  std::size_t running() const override { return running_.size(); }
  std::string folder(const std::string& key) const override;

  /// Ends every running job with `make(spec, folder)`.
  void finish_all();
  OnStep on_step;  ///< job started
  std::function<jobs::JobResult(const jobs::JobSpec&, const std::string& folder)> make;
  std::vector<std::string> started;                            ///< keys, each time
  std::vector<std::string> cancelled;                          ///< keys, each time
  jobs::FateOf fate;                                           ///< as the pipeline told it at its start
  bool deaf = false;                                           ///< cancels nothing
  bool spare = false;                                          ///< cancelled jobs succeed
  jobs::JobPlace runs_at{"local", "4711", "running", "", ""};  ///< all jobs that run

 private:
  std::string root_;
  std::set<std::string> to_fail_;  ///< keys of running jobs that were cancelled
  std::map<std::string, jobs::JobSpec> running_;
  std::function<void(jobs::JobDone)> callback_;
};

/// Fails or delays chosen commits.
class FaultyCommitter final : public Committer {
 public:
  explicit FaultyCommitter(store::Store& store) : inner_(store) {}
  schema::Result<std::vector<Event>> commit(std::string_view what, const Work& work) override;
  std::int64_t fail_at = -1;                          ///< number of the commit that fails, from 0; -1 = none
  schema::ErrorCode fail_code = schema::ErrorCode::storage_full;  ///< with which it fails
  std::function<void(std::string_view what)> before;  ///< may block
  OnStep on_step;
  std::int64_t count = 0;

 private:
  StoreCommitter inner_;
};

}  // namespace driftgate::pipeline::fakes
