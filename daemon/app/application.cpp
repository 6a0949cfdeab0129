#include "daemon/app/application.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "daemon/api/api.hpp"
#include "daemon/api/stored_ports.hpp"
#include "daemon/app/logging.hpp"
#include "daemon/app/metrics.hpp"
#include "daemon/app/options.hpp"
#include "daemon/app/router_keeper.hpp"
#include "daemon/app/stop_signal.hpp"
#include "daemon/app/ticker.hpp"
#include "daemon/app/version.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/evidence/backup.hpp"
#include "daemon/evidence/bundle/dsse.hpp"
#include "daemon/evidence/keys/key_files.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/verify/background_check.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/jobs/local_runner.hpp"
#include "daemon/net/server.hpp"
#include "daemon/notify/desk.hpp"
#include "daemon/notify/sender.hpp"
#include "daemon/pipeline/clock.hpp"
#include "daemon/pipeline/pipeline.hpp"
#include "daemon/pipeline/redact.hpp"
#include "daemon/pipeline/schedule_desk.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/control/router_loss.hpp"
#include "daemon/store/id.hpp"
#include "daemon/store/idempotency.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::app {
namespace {

using schema::Result;

constexpr std::chrono::seconds kDrainTime{5};                ///< for requests in flight at the end
constexpr std::chrono::milliseconds kProgressInterval{250};  ///< how often streams look for progress
constexpr std::int64_t kIdempotencyKept_us = 7LL * 86'400 * 1'000'000;

std::int64_t wall_clock_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

/// In start order, so that members are destroyed in reverse.
struct Application::Parts {
  explicit Parts(const Settings& from) : settings(from), log(from.log_format, from.log_level) {}

  const Settings settings;
  const Log log;
  const std::string instance = store::make_id("in", wall_clock_us(), store::secure_id_random());
  std::unique_ptr<store::Store> store;
  std::optional<pipeline::SystemClock> clock;  ///< one for tokens, schedules and the pipeline
  std::unique_ptr<evidence::HeadPublisher> heads;
  std::optional<evidence::AttestationSigner> attestations;
  std::unique_ptr<api::TokenPort> tokens;
  std::unique_ptr<api::EvidencePort> evidence;
  std::unique_ptr<api::IdempotencyPort> idempotency;
  std::unique_ptr<route::RouterDriver> driver;
  std::unique_ptr<RouterKeeper> keeper;
  std::unique_ptr<jobs::LocalRunner> runner;
  std::unique_ptr<notify::Sender> sender;
  std::unique_ptr<notify::Desk> desk;
  std::unique_ptr<pipeline::ScheduleDesk> schedules;
  std::unique_ptr<pipeline::Pipeline> pipeline;
  std::unique_ptr<evidence::BackgroundCheck> record_check;
  std::unique_ptr<api::Api> api;
  std::unique_ptr<net::Server> server;
  std::atomic<net::Server*> streams{nullptr};  ///< the server, once it has streams that a revocation may end
  std::unique_ptr<pipeline::Subscription> subscription;
  std::unique_ptr<Ticker> ticker;

  Result<void> open_store();
  Result<void> open_log();
  Result<void> compare_tables();
  Result<void> admit_people();
  Result<void> find_router();
  Result<void> open_jobs();
  Result<void> open_webhooks();
  Result<void> start_pipeline();
  Result<void> check_record();
  Result<void> serve_api();
  Result<void> announce();
  void stop();
  [[nodiscard]] std::vector<api::ReadyCheck> readiness();
  [[nodiscard]] api::Context api_context();
  std::mutex backing_up;
  [[nodiscard]] Result<evidence::Backup> make_backup(const std::string& name);
  [[nodiscard]] evidence::KeyFile attestation_key() const;
  [[nodiscard]] Result<void> record_attestation_key(const evidence::PublicKey& key);
};

Result<void> Application::Parts::open_store() {
  store::StoreOptions options;
  options.data_dir = data_dir_of(settings);
  options.opened_us = wall_clock_us();
  auto opened = store::Store::open(std::move(options));
  if (!opened) return std::unexpected(opened.error());
  store = std::move(*opened);
  const auto newest = store->read([](store::Reader& reader) { return evidence::newest_time_us(reader); });
  if (!newest) return std::unexpected(newest.error());
  clock.emplace(*newest);
  return {};
}

evidence::KeyFile Application::Parts::attestation_key() const {
  return {evidence::KeyUse::attestation, attestation_key_file(settings), settings.evidence_origin};
}

/// Notes the key for the trust file, and refuses one that is not in force.
Result<void> Application::Parts::record_attestation_key(const evidence::PublicKey& key) {
  const auto known = evidence::load_trust(store->data_dir());
  if (!known) return std::unexpected(known.error());
  const auto in_force = evidence::check_key(*known, attestation_key(), key);
  if (!in_force) return in_force;
  return evidence::note_key(store->data_dir(), attestation_key(), key, 0, wall_clock_us());
}

/// Refuses to start on a database whose log does not extend the head that was published outside it.
Result<void> Application::Parts::open_log() {
  auto started = evidence::HeadPublisher::start(*store, head_options(settings));
  if (!started) return std::unexpected(started.error());
  heads = std::move(*started);
  const auto finished = evidence::finish_rotation(*store, attestation_key());
  if (!finished) return finished;
  auto signer =
      evidence::AttestationSigner::open(attestation_key_file(settings).string(), settings.evidence_origin);
  if (!signer) return std::unexpected(signer.error());
  const auto recorded = record_attestation_key(signer->public_key());
  if (!recorded) return recorded;
  attestations.emplace(std::move(*signer));
  evidence = api::stored_evidence(
      *store, *heads, *attestations, [this] { return clock->now_us(); },
      [this](std::string_view text) { log.warn(text); }, [this](std::string_view text) { log.error(text); });
  return {};
}

/// Refuses to start on tables that say something else than the log: what they name would be served or admitted.
Result<void> Application::Parts::compare_tables() {
  const auto found = evidence::compare_live_tables(*store);
  if (!found) return std::unexpected(found.error());
  if (found->empty()) return {};
  for (const auto& difference : *found) log.error(fmt::format("differs from the log: {}", to_text(difference)));
  return schema::fail(
      schema::ErrorCode::corrupt,
      fmt::format("the database differs from the signed log in {} places, the first is {}. Somebody changed it: "
                  "restore a backup",
                  found->size(), to_text(found->front())));
}

Result<void> Application::Parts::admit_people() {
  tokens = api::stored_tokens(
      *store, [this] { return clock->now_us(); },
      [this] {
        if (net::Server* const waiting = streams.load()) waiting->wake_streams();
      });
  idempotency = api::stored_idempotency(*store, wall_clock_us);
  const std::filesystem::path file = data_dir_of(settings) / "admin.token";
  const auto first = auth::ensure_first_admin(*store, file, clock->now_us());
  if (!first) return std::unexpected(first.error());
  if (*first) log.info(fmt::format("the first admin token is in {}", file.string()));
  const auto forgotten = store->write("forget old requests", [](store::Tx& tx) {
    return store::idempotency_forget(tx, wall_clock_us() - kIdempotencyKept_us, true);
  });
  if (!forgotten) return std::unexpected(forgotten.error());
  return {};
}

/// Users' traffic never waits for the daemon: a router that lives already is adopted as it is.
Result<void> Application::Parts::find_router() {
  route::SpawnOptions options = router_options(settings);
  const std::string control_path = options.router.control_path;
  auto kept = RouterKeeper::start(
      std::move(options),
      [this](std::string_view level, const std::string& text) { log.write(level, text); });
  if (!kept) return std::unexpected(kept.error());
  keeper = std::move(*kept);
  const auto router = keeper->router();
  log.info(fmt::format("router {} port={} pid={}", router.adopted ? "adopted" : "started", router.info.port,
                       router.info.pid));
  driver = std::make_unique<route::RouterDriver>(control_path);
  return {};
}

Result<void> Application::Parts::open_jobs() {
  auto opened = jobs::LocalRunner::open(runner_options(settings));
  if (!opened) return std::unexpected(opened.error());
  runner = std::move(*opened);
  return {};
}

/// What a daemon before left in the outbox is sent at once.
Result<void> Application::Parts::open_webhooks() {
  const auto configured = webhook_settings(settings);
  auto endpoints = notify::load_endpoints(configured, webhook_policy(settings));
  if (!endpoints) return std::unexpected(endpoints.error());
  notify::SenderOptions options;
  options.policy = webhook_policy(settings);
  options.now_us = wall_clock_us;
  options.log = [this](std::string_view level, const std::string& text) { log.write(level, text); };
  auto started = notify::Sender::start(*store, std::move(*endpoints), std::move(options));
  if (!started) return std::unexpected(started.error());
  sender = std::move(*started);
  desk = notify::stored_desk(*store, configured, wall_clock_us, [this] { sender->wake(); });
  return {};
}

Result<void> Application::Parts::start_pipeline() {
  std::vector<notify::Subscriber> subscribers;
  for (const auto& endpoint : webhook_settings(settings))
    subscribers.push_back({endpoint.name, endpoint.events});
  schedules = pipeline::stored_schedules(*store, [this] { return clock->now_us(); });
  pipeline = pipeline::Pipeline::create(
      {pipeline_settings(settings, kVersion),
       *store,
       *driver,
       *runner,
       instance,
       [this](std::string_view level, const std::string& text) { log.write(level, text); },
       &*clock,
       nullptr,
       {},
       true,
       {},
       notify::Outbox(std::move(subscribers)),
       [this] { return driver->mark(); }});
  const auto started = pipeline->start();
  if (!started) return started;
  keeper->on_replaced([this](const route::RouterLoss& loss) {
    pipeline->router_replaced(loss, [loss] { route::drop_note(loss); });
  });
  return {};
}

/// One at a time: each keeps the WAL from being written back.
Result<evidence::Backup> Application::Parts::make_backup(const std::string& name) {
  const std::unique_lock one(backing_up, std::try_to_lock);
  if (!one.owns_lock()) {
    return schema::fail(schema::ErrorCode::conflict, "another backup is being made: try again when it is done");
  }
  log.info(fmt::format("backup {} begins", name));
  auto made = evidence::make_backup(*store, *heads, backup_dir_of(settings), name);
  log.info(made ? fmt::format("backup {} is done, entries={}", name, made->tree_size)
                : fmt::format("backup {} failed: {}", name, made.error().describe()));
  return made;
}

api::Context Application::Parts::api_context() {
  api::Context context{*pipeline, *tokens, *evidence, *idempotency, [this] { return clock->now_us(); }, {}, {}, {}};
  context.ready = [this] { return readiness(); };
  context.backup = [this](const std::string& name) { return make_backup(name); };
  context.webhooks = desk.get();
  context.more_metrics = [this] {
    return store_metrics(store->stats(), heads->published_size()) + check_metrics(record_check->progress()) +
           router_metrics(keeper->figures());
  };
  context.log = [this](const api::AccessRecord& record) {
    log.debug(fmt::format("{} {} status={} principal={} from={} us={}", record.method, record.path,
                          record.status, record.principal, record.remote_address, record.took.count()));
  };
  context.requests_per_second = static_cast<double>(settings.http_requests_per_second);
  context.burst = 2 * context.requests_per_second;
  context.schedules = schedules.get();
  context.redact = [this](const std::string& actor, const std::string& promotion, const std::string& reason) {
    return pipeline::redact_promotion(*store, actor, promotion, reason, clock->now_us());
  };
  return context;
}

/// The entries and what is derived from them are compared with the signed head while the daemon serves.
Result<void> Application::Parts::check_record() {
  const auto note = heads->signed_head();
  if (!note) return std::unexpected(note.error());
  const auto head = evidence::read_checkpoint(*note);
  if (!head) return std::unexpected(head.error());
  record_check = std::make_unique<evidence::BackgroundCheck>(
      *store, head->checkpoint, [this](const evidence::Difference& difference) {
        log.error(fmt::format("differs from the signed log: {}", to_text(difference)));
      });
  return {};
}

Result<void> Application::Parts::serve_api() {
  api = std::make_unique<api::Api>(api_context());
  auto options = server_options(settings);
  if (!options) return std::unexpected(options.error());
  options->log = [this](std::string_view message) { log.warn(message); };
  auto started = net::Server::start(std::move(*options), *api);
  if (!started) return std::unexpected(started.error());
  server = std::move(*started);
  streams = server.get();
  subscription = pipeline->subscribe([this](const pipeline::Event&) {
    server->wake_streams();
    sender->wake();
  });
  ticker = std::make_unique<Ticker>(kProgressInterval, [this] {
    server->wake_streams();
    evidence->settle_reads();
  });
  return {};
}

Result<void> Application::Parts::announce() {
  log.info(fmt::format("ready port={} data_dir={} version={}", server->port(), data_dir_of(settings).string(),
                       kVersion));
  if (settings.port_file.empty()) return {};
  return write_file(std::filesystem::absolute(expand_home(settings.port_file)),
                    fmt::format("{}\n", server->port()));
}

std::vector<api::ReadyCheck> Application::Parts::readiness() {
  const auto router = driver->info();
  const auto readable = store->read([](store::Reader& reader) { return evidence::tree_size(reader); });
  return {{"store", readable.has_value(), readable ? "" : readable.error().describe()},
          {"router", router.has_value(), router ? "" : router.error().describe()},
          record_ready(record_check->progress())};
}

/// The reverse of the start. Jobs and the router live on; the next daemon adopts them.
void Application::Parts::stop() {
  log.info("stopping");
  ticker.reset();
  subscription.reset();
  if (server) server->stop(kDrainTime);
  keeper.reset();
  if (pipeline) pipeline->stop();
  pipeline.reset();
  record_check.reset();
  desk.reset();
  sender.reset();
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

Result<std::unique_ptr<Application>> Application::start(const Settings& settings) {
  std::unique_ptr<Application> application(new Application(std::make_unique<Parts>(settings)));
  Parts& parts = *application->parts_;
  for (const auto step :
       {&Parts::open_store, &Parts::open_log, &Parts::compare_tables, &Parts::admit_people, &Parts::find_router,
        &Parts::open_jobs, &Parts::open_webhooks, &Parts::start_pipeline, &Parts::check_record, &Parts::serve_api,
        &Parts::announce}) {
    const auto done = (parts.*step)();
    if (!done) return std::unexpected(done.error());
  }
  return application;
}

int serve(const Settings& settings) {
  const StopSignal signal;
  const auto application = Application::start(settings);
  if (!application) return cli::report(application.error());
  signal.wait();
  return cli::kExitOk;
}

}  // namespace driftgate::app
