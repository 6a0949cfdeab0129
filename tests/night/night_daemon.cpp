#include "tests/night/night_daemon.hpp"

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "daemon/api/api.hpp"
#include "daemon/api/stored_ports.hpp"
#include "daemon/app/logging.hpp"
#include "daemon/app/options.hpp"
#include "daemon/app/start_steps.hpp"
#include "daemon/app/version.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/jobs/slurm/chosen_runner.hpp"
#include "daemon/net/server.hpp"
#include "daemon/notify/desk.hpp"
#include "daemon/pipeline/pipeline.hpp"
#include "daemon/pipeline/read/insight.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "tests/night/night_clock.hpp"
#include "tests/night/night_plane.hpp"

namespace driftgate::night {
namespace {

using schema::Result;

/// Real time that one step of simulated time may take.
constexpr std::chrono::seconds kPatience{60};
/// A look whether the step has ended, where no event tells of it: the end of work on the helper thread.
constexpr std::chrono::milliseconds kLook{2};

template <typename Member, typename Value>
Result<void> keep(Member& member, Result<Value> made) {
  auto value = TRY(std::move(made));
  member = std::move(value);
  return {};
}

}  // namespace

struct NightDaemon::Parts {
  Parts(const app::Settings& from, std::int64_t now) : settings(from), log("text", "info"), clock(now) {}

  const app::Settings settings;
  const app::Log log;
  NightClock clock;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<evidence::HeadPublisher> heads;
  std::optional<evidence::AttestationSigner> attestations;
  std::unique_ptr<api::EvidencePort> evidence;
  std::unique_ptr<api::TokenPort> tokens;
  std::unique_ptr<api::IdempotencyPort> idempotency;
  std::unique_ptr<NightPlane> plane;
  std::unique_ptr<jobs::JobRunner> runner;
  std::unique_ptr<notify::Sender> sender;
  std::unique_ptr<notify::Desk> webhooks;
  std::unique_ptr<pipeline::RecipeAdmin> recipes;
  std::unique_ptr<pipeline::ScheduleAdmin> schedules;
  std::unique_ptr<pipeline::Insight> insight;
  std::unique_ptr<pipeline::Pipeline> pipeline;
  std::unique_ptr<api::Api> api;
  std::unique_ptr<net::Server> server;
  std::unique_ptr<pipeline::Subscription> subscription;

  std::mutex mutex;
  std::condition_variable changed;

  const std::function<std::int64_t()> now_us = [this] { return clock.now_us(); };
  const std::function<void(std::string_view, const std::string&)> write_log =
      [this](std::string_view level, const std::string& text) { log.write(level, text); };

  Result<void> open_store();
  Result<void> open_log();
  Result<void> admit_people();
  Result<void> open_world();
  Result<void> start_pipeline();
  Result<void> serve_api();
  [[nodiscard]] Result<bool> settled(std::uint64_t& entries);
};

Result<void> NightDaemon::Parts::open_store() {
  return keep(store, store::Store::open({.data_dir = app::data_dir_of(settings), .opened_us = now_us()}));
}

Result<void> NightDaemon::Parts::open_log() {
  auto options = app::head_options(settings);
  options.now_us = now_us();
  TRY(keep(heads, evidence::HeadPublisher::start(*store, options)));
  auto signer = TRY(app::open_attestations(*store, settings, now_us()));
  attestations.emplace(std::move(signer));
  evidence = api::stored_evidence(
      *store, *heads, *attestations, now_us, [this](std::string_view text) { log.warn(text); },
      [this](std::string_view text) { log.error(text); });
  return app::compare_tables(*store, log);
}

Result<void> NightDaemon::Parts::admit_people() {
  auth::SessionOptions sessions{.lifetime_s = settings.http_session_s};
  sessions.key = TRY(auth::session_key(app::session_key_file(settings)));
  tokens = api::stored_tokens(*store, now_us, {}, sessions);
  idempotency = api::stored_idempotency(*store, now_us);
  TRY(app::admit_first_admin(*store, settings, log, now_us()));
  return app::forget_requests(*store, now_us());
}

Result<void> NightDaemon::Parts::open_world() {
  TRY(keep(plane, NightPlane::open(app::data_dir_of(settings))));
  auto options_of_runner = TRY(app::runner_options(settings));
  TRY(keep(runner, jobs::open_chosen_runner(std::move(options_of_runner))));
  const auto configured = app::webhook_settings(settings);
  const auto policy = app::webhook_policy(settings);
  auto endpoints = TRY(notify::load_endpoints(configured, policy));
  notify::SenderOptions options{.policy = policy, .now_us = now_us, .log = write_log};
  TRY(keep(sender, notify::Sender::start(*store, std::move(endpoints), std::move(options))));
  webhooks = notify::stored_desk(*store, configured, now_us, [this] { sender->wake(); });
  return {};
}

Result<void> NightDaemon::Parts::start_pipeline() {
  std::vector<notify::Subscriber> subscribers;
  for (const auto& endpoint : app::webhook_settings(settings))
    subscribers.push_back({endpoint.name, endpoint.events});
  schedules = pipeline::stored_schedules(
      *store, now_us, [this](const std::string& actor, const pipeline::PromotionRequest& request) {
        return pipeline->try_request(actor, request);
      });
  recipes = pipeline::stored_recipes(
      *store, now_us, [this](const std::string& document) { return pipeline->try_recipe(document); });
  insight = pipeline::stored_insight(*store);
  pipeline =
      pipeline::Pipeline::create({.settings = app::pipeline_settings(settings, app::kVersion),
                                  .store = *store,
                                  .driver = *plane,
                                  .runner = *runner,
                                  .instance = store::make_id("in", now_us(), store::secure_id_random()),
                                  .log = write_log,
                                  .clock = &clock,
                                  .random = {},
                                  .health = [](const std::string&) -> Result<void> { return {}; },
                                  .outbox = notify::Outbox(std::move(subscribers))});
  TRY(pipeline->start());
  subscription = pipeline->subscribe([this](const pipeline::Event&) {
    changed.notify_all();
    sender->wake();
  });
  return {};
}

Result<void> NightDaemon::Parts::serve_api() {
  api = std::make_unique<api::Api>(api::Context{.service = *pipeline,
                                                .tokens = *tokens,
                                                .evidence = *evidence,
                                                .idempotency = *idempotency,
                                                .now_us = now_us,
                                                .ready = [] { return std::vector<api::ReadyCheck>(); },
                                                .more_metrics = [] { return std::string(); },
                                                .log = [](const api::AccessRecord&) {},
                                                // The limiter's time is the night's, which stands still.
                                                .requests_per_second = 1e9,
                                                .burst = 1e9,
                                                .webhooks = webhooks.get(),
                                                .schedules = schedules.get(),
                                                .recipes = recipes.get(),
                                                .insight = insight.get()});
  auto options = TRY(app::server_options(settings));
  options.log = [this](std::string_view message) { log.warn(message); };
  return keep(server, net::Server::start(std::move(options), *api));
}

/// Whether a step of time has ended: two looks in a row with `entries` in the log.
Result<bool> NightDaemon::Parts::settled(std::uint64_t& entries) {
  const auto before = entries;
  return store->read([&](store::Reader& reader) -> Result<bool> {
    entries = TRY(evidence::tree_size(reader));
    const auto due = TRY(store::due_schedules(reader, now_us(), 1));
    return entries == before && due.empty();
  });
}

NightDaemon::NightDaemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

NightDaemon::~NightDaemon() {
  Parts& parts = *parts_;
  parts.subscription.reset();
  if (parts.server) parts.server->stop(std::chrono::seconds(1));
  if (parts.pipeline) parts.pipeline->stop();
  parts.pipeline.reset();
  parts.sender.reset();
  parts.runner.reset();
  if (parts.heads) parts.heads->stop();
  if (parts.store) parts.store->stop();
}

Result<std::unique_ptr<NightDaemon>> NightDaemon::start(const app::Settings& settings, std::int64_t now_us) {
  std::unique_ptr<NightDaemon> daemon(new NightDaemon(std::make_unique<Parts>(settings, now_us)));
  Parts& parts = *daemon->parts_;
  for (const auto step : {&Parts::open_store, &Parts::open_log, &Parts::admit_people, &Parts::open_world,
                          &Parts::start_pipeline, &Parts::serve_api}) {
    TRY((parts.*step)());
  }
  return daemon;
}

Result<std::size_t> NightDaemon::advance(std::int64_t now_us,
                                         const std::vector<std::string>& failing_models) {
  Parts& parts = *parts_;
  parts.clock.set(now_us);
  parts.plane->serve(now_us, failing_models);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::uint64_t entries = 0;
  while (std::chrono::steady_clock::now() < end) {
    parts.pipeline->tick();
    const bool busy = parts.runner->running() > 0;
    const auto settled = TRY(parts.settled(entries));
    if (!busy && settled) {
      const auto open = TRY(look_up(*parts.store, store::open_promotions));
      return open.size();
    }
    std::unique_lock lock(parts.mutex);
    parts.changed.wait_for(lock, kLook);
  }
  return schema::fail(schema::ErrorCode::deadline_exceeded, "a step of the night does not end");
}

void NightDaemon::set_clock(std::int64_t now_us) {
  parts_->clock.set(now_us);
}

std::uint16_t NightDaemon::port() const {
  return parts_->server->port();
}

}  // namespace driftgate::night
