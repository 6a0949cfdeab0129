#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/api.hpp"
#include "daemon/api/stored_ports.hpp"
#include "daemon/app/application.hpp"
#include "daemon/app/backups.hpp"
#include "daemon/app/keeper/router_keeper.hpp"
#include "daemon/app/logging.hpp"
#include "daemon/app/metrics.hpp"
#include "daemon/app/ticker.hpp"
#include "daemon/base/clock.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/verify/background_check.hpp"
#include "daemon/jobs/job.hpp"
#include "daemon/net/server.hpp"
#include "daemon/notify/desk.hpp"
#include "daemon/notify/sender.hpp"
#include "daemon/notify/traces/trace_sender.hpp"
#include "daemon/pipeline/pipeline.hpp"
#include "daemon/pipeline/read/insight.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/web/site.hpp"

namespace driftgate::app {

/// What `driftgate serve` consists of. The members stand in start order, so that they are destroyed in
/// reverse; application.cpp has the steps that make them.
struct Application::Parts {
  explicit Parts(const Settings& from) : settings(from), log(from.log_format, from.log_level) {}

  const Settings settings;
  const Log log;  ///< lines on standard error
  const std::int64_t started_us = base::wall_clock_us();
  const web::Site site{web::embedded_files(), web::embedded_absence()};  ///< the page
  const std::string instance = store::make_id("in", base::wall_clock_us(), store::secure_id_random());

  std::unique_ptr<store::Store> store;                      ///< the database: one writer thread, readers
  std::optional<pipeline::SystemClock> clock;               ///< never behind the newest entry of the log
  std::unique_ptr<evidence::HeadPublisher> heads;           ///< signs the log's head with each commit
  std::optional<evidence::AttestationSigner> attestations;  ///< signs what bundles state
  std::unique_ptr<api::EvidencePort> evidence;              ///< the log, as the API reads it
  std::unique_ptr<api::TokenPort> tokens;                   ///< who may do what
  std::unique_ptr<api::IdempotencyPort> idempotency;        ///< answers that a repeated request gets again
  std::unique_ptr<RouterKeeper> keeper;                     ///< keeps the router's process alive
  std::unique_ptr<route::RouterDriver> driver;        ///< tells the router its routes and reads them back
  std::unique_ptr<jobs::JobRunner> runner;            ///< runs jobs here or on Slurm, adopts living ones
  std::unique_ptr<notify::Sender> sender;             ///< delivers the outbox to webhooks
  std::unique_ptr<notify::TraceSender> traces;        ///< sends traces to a collector; null: there is none
  std::unique_ptr<notify::Desk> webhooks;             ///< shows operators the endpoints
  std::unique_ptr<pipeline::RecipeAdmin> recipes;
  std::unique_ptr<pipeline::ScheduleAdmin> schedules;  ///< what is promoted at which times
  std::unique_ptr<pipeline::Insight> insight;          ///< what plots and explanations are made of
  std::unique_ptr<pipeline::Pipeline> pipeline;       ///< decides promotions; all that follows serves it
  std::unique_ptr<evidence::BackgroundCheck> record_check;  ///< compares the database with the signed log
  std::optional<Backups> backups;                           ///< made on request
  std::optional<FolderLooks> looks;                         ///< at the disk, for metrics
  std::unique_ptr<api::Api> api;                            ///< the HTTP API over all of the above
  std::unique_ptr<net::Server> server;                      ///< its listener, from here on people are served
  std::atomic<net::Server*> streams{nullptr};               ///< the server, once a revocation may end streams
  std::unique_ptr<pipeline::Subscription> subscription;     ///< events wake streams and the sender
  std::unique_ptr<Ticker> ticker;                           ///< wakes streams for progress, which is no event

  // What several parts are given.
  const std::function<std::int64_t()> now_us = [this] { return clock->now_us(); };
  const std::function<void(std::string_view, const std::string&)> write_log =
      [this](std::string_view level, const std::string& text) { log.write(level, text); };

  // The steps of the start, in order. Each returns what keeps the daemon from serving.
  schema::Result<void> open_store();
  schema::Result<void> open_log();
  schema::Result<void> admit_people();
  schema::Result<void> find_router();
  schema::Result<void> open_jobs();
  schema::Result<void> open_webhooks();
  schema::Result<void> open_traces();
  schema::Result<void> start_pipeline();
  schema::Result<void> check_entries();
  schema::Result<void> serve_api();
  schema::Result<void> announce();
  /// The reverse of the start. Jobs and the router live on; the next daemon adopts them.
  void stop();

  [[nodiscard]] api::Context api_context();
  [[nodiscard]] std::vector<api::ReadyCheck> readiness();
  /// What /metrics has beside the pipeline's figures.
  [[nodiscard]] std::string metrics();
};

}  // namespace driftgate::app
