#include "daemon/app/application.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "daemon/app/application_parts.hpp"
#include "daemon/app/check_start.hpp"
#include "daemon/app/options.hpp"
#include "daemon/app/start_steps.hpp"
#include "daemon/app/stop_signal.hpp"
#include "daemon/app/version.hpp"
#include "daemon/base/durable_file.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/engine_access.hpp"

namespace driftgate::app {
namespace {

using schema::Result;

constexpr std::size_t kReaders = 8;  ///< of the store: the API's threads, the pipeline's loop and its helpers
constexpr std::chrono::seconds kDrainTime{5};                ///< for requests in flight at the end
constexpr std::chrono::milliseconds kProgressInterval{250};  ///< how often streams look for progress

/// Puts what a step made into the member that owns it; the step's error otherwise. TRY would do the same, but
/// g++ 12 warns at -O2 that its copy may be uninitialised.
template <typename Member, typename Value>
Result<void> keep(Member& member, Result<Value> made) {
  if (!made) return std::unexpected(std::move(made).error());
  member = *std::move(made);
  return {};
}

}  // namespace

Result<void> Application::Parts::open_store() {
  TRY(keep(store, store::Store::open({.data_dir = data_dir_of(settings),
                                      .opened_us = base::wall_clock_us(),
                                      .readers = kReaders})));
  TRY(evidence::index_log(*store));
  const auto newest =
      TRY(store->read([](store::Reader& reader) { return evidence::newest_time_us(reader); }));
  clock.emplace(newest);
  return {};
}

/// Refuses a database whose log does not extend the head that was published outside it, or whose tables
/// differ from the log.
Result<void> Application::Parts::open_log() {
  TRY(keep(heads, evidence::HeadPublisher::start(*store, head_options(settings))));
  auto signer = TRY(open_attestations(*store, settings, base::wall_clock_us()));
  attestations.emplace(std::move(signer));
  evidence = api::stored_evidence(
      *store, *heads, *attestations, now_us, [this](std::string_view text) { log.warn(text); },
      [this](std::string_view text) { log.error(text); });
  return compare_tables(*store, log);
}

Result<void> Application::Parts::admit_people() {
  const auto look_again = [this] {
    if (net::Server* const waiting = streams.load()) waiting->wake_streams();
  };
  auth::SessionOptions sessions{.lifetime_s = settings.http_session_s};
  sessions.key = TRY(auth::session_key(session_key_file(settings)));
  tokens = api::stored_tokens(*store, now_us, look_again, sessions);
  idempotency = api::stored_idempotency(*store, now_us);
  TRY(admit_first_admin(*store, settings, log, now_us()));
  return forget_requests(*store, now_us());
}

/// Users' traffic never waits for the daemon: a router that is already running is adopted as it is.
Result<void> Application::Parts::find_router() {
  route::SpawnOptions options = router_options(settings);
  options.log = write_log;
  TRY(check_router_settings(settings, options.router));
  const std::string control_path = options.router.control_path;
  TRY(keep(keeper, RouterKeeper::start(std::move(options), write_log)));
  const auto router = keeper->router();
  log.info(fmt::format("router {} port={} pid={} data_plane={}", router.adopted ? "adopted" : "started",
                       router.info.port, router.info.pid, router.info.plane));
  TRY(check_data_plane(settings, router.info, control_path));
  driver = std::make_unique<route::RouterDriver>(control_path, plane_capabilities(settings));
  driver->ask_access_of(
      [this](const std::string& url) { return store::look_up(*store, store::access_at, url); });
  return {};
}

Result<void> Application::Parts::open_jobs() {
  auto options = TRY(runner_options(settings));
  TRY(check_slurm(options, log));
  const auto open = TRY(store::look_up(*store, store::open_jobs));
  std::vector<std::string> folders;
  for (const auto& job : open) folders.push_back(job.dir);
  TRY(jobs::check_open_folders(options, folders));
  options.slurm.log = write_log;
  return keep(runner, jobs::open_chosen_runner(std::move(options)));
}

/// Messages that the previous daemon left in the outbox are sent at once. Receivers compare the time of a
/// message with their own, so it is the wall clock's.
Result<void> Application::Parts::open_webhooks() {
  const auto configured = webhook_settings(settings);
  const auto policy = webhook_policy(settings);
  auto endpoints = TRY(notify::load_endpoints(configured, policy));
  notify::SenderOptions options{.policy = policy, .now_us = base::wall_clock_us, .log = write_log};
  TRY(keep(sender, notify::Sender::start(*store, std::move(endpoints), std::move(options))));
  webhooks = notify::stored_desk(*store, configured, base::wall_clock_us, [this] { sender->wake(); });
  return {};
}

Result<void> Application::Parts::open_traces() {
  const auto to = trace_settings(settings);
  if (to.endpoint.empty()) return {};
  notify::TraceOptions options;
  options.resource = {kVersion, settings.evidence_origin};
  options.now_us = base::wall_clock_us;
  options.log = write_log;
  return keep(traces, notify::TraceSender::start(*store, to, std::move(options)));
}

Result<void> Application::Parts::start_pipeline() {
  std::vector<notify::Subscriber> subscribers;
  for (const auto& endpoint : webhook_settings(settings))
    subscribers.push_back({endpoint.name, endpoint.events});
  const auto try_request = [this](const std::string& actor, const pipeline::PromotionRequest& request) {
    return pipeline->try_request(actor, request);
  };
  schedules = pipeline::stored_schedules(*store, now_us, try_request);
  recipes = pipeline::stored_recipes(
      *store, now_us, [this](const std::string& document) { return pipeline->try_recipe(document); },
      try_request);
  insight = pipeline::stored_insight(*store);
  pipeline = pipeline::Pipeline::create({.settings = pipeline_settings(settings, kVersion),
                                         .store = *store,
                                         .driver = *driver,
                                         .runner = *runner,
                                         .instance = instance,
                                         .log = write_log,
                                         .clock = &*clock,
                                         .random = {},
                                         .outbox = notify::Outbox(std::move(subscribers)),
                                         .router_mark = [this] { return driver->mark(); }});
  TRY(pipeline->start());
  keeper->on_replaced([this](const route::RouterLoss& loss) {
    pipeline->router_replaced(loss, [loss] { route::drop_note(loss); });
  });
  return {};
}

Result<void> Application::Parts::check_entries() {
  return keep(record_check, check_record(*store, *heads, log));
}

Result<void> Application::Parts::serve_api() {
  backups.emplace(*store, *heads, backup_dir_of(settings), log);
  looks.emplace(data_dir_of(settings), backup_dir_of(settings));
  api = std::make_unique<api::Api>(api_context());
  auto options = TRY(server_options(settings));
  options.listener = TRY(inherited_api_socket());
  options.log = [this](std::string_view message) { log.warn(message); };
  TRY(keep(server, net::Server::start(std::move(options), *api)));
  streams = server.get();
  subscription = pipeline->subscribe([this](const pipeline::Event& event) {
    server->wake_streams();
    sender->wake();
    if (traces) traces->note(event.kind, event.promotion);
  });
  ticker = std::make_unique<Ticker>(kProgressInterval, [this] {
    server->wake_streams();
    evidence->settle_reads();
  });
  return {};
}

Result<void> Application::Parts::announce() {
  if (web::embedded_files().empty())
    log.warn(fmt::format("this program was built without its page: {}; the API and all commands work",
                         web::embedded_absence().reason));
  log.info(fmt::format("ready port={} data_dir={} version={}", server->port(), data_dir_of(settings).string(),
                       kVersion));
  if (settings.port_file.empty()) return {};
  return base::write_file_durably(std::filesystem::absolute(expand_home(settings.port_file)),
                                  fmt::format("{}\n", server->port()), 0644);
}

void Application::Parts::stop() {
  log.info("stopping");
  ticker.reset();
  subscription.reset();
  if (traces) traces->stop_soon();
  if (server) server->stop(kDrainTime);
  // What asks other machines ends while the router is still kept and its lease renewed. The next daemon sends
  // what comes into the outbox meanwhile.
  traces.reset();
  webhooks.reset();
  sender.reset();
  keeper.reset();
  if (pipeline) pipeline->stop();
  pipeline.reset();
  record_check.reset();
  runner.reset();
  driver.reset();
  if (heads) heads->stop();
  if (store) store->stop();
  log.info("stopped");
}

Application::Application(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Application::~Application() {
  parts_->stop();
}

void Application::hand_over_router() {
  parts_->log.info("handing the router over to a new process");
  parts_->keeper->hand_over_soon();
}

Result<std::unique_ptr<Application>> Application::start(const Settings& settings) {
  std::unique_ptr<Application> application(new Application(std::make_unique<Parts>(settings)));
  Parts& parts = *application->parts_;
  for (const auto step :
       {&Parts::open_store, &Parts::open_log, &Parts::admit_people, &Parts::find_router, &Parts::open_jobs,
        &Parts::open_webhooks, &Parts::open_traces, &Parts::start_pipeline, &Parts::check_entries,
        &Parts::serve_api, &Parts::announce}) {
    TRY((parts.*step)());
  }
  return application;
}

int serve(const Settings& settings) {
  const StopSignal signal;
  if (const auto usable = check_settings(settings); !usable) return report_unusable(usable.error());
  const auto application = Application::start(settings);
  if (!application) return cli::report(application.error());
  while (signal.wait() == StopSignal::Wish::hand_over) (*application)->hand_over_router();
  return cli::kExitOk;
}

}  // namespace driftgate::app
