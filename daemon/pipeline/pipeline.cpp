#include "daemon/pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <list>

#include "daemon/jobs/job_folder.hpp"
#include "daemon/net/url.hpp"
#include "daemon/pipeline/coordinator.hpp"
#include "daemon/pipeline/loop.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/read/job_views.hpp"
#include "daemon/pipeline/read/lists.hpp"
#include "daemon/pipeline/read/plan.hpp"
#include "daemon/pipeline/read/promotion_lists.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/pipeline/read/what_if.hpp"
#include "daemon/pipeline/requests/ability_gaps.hpp"
#include "daemon/pipeline/requests/engine_health.hpp"
#include "daemon/pipeline/requests/promotions.hpp"
#include "daemon/pipeline/requests/recipe_check.hpp"
#include "daemon/pipeline/requests/registry.hpp"
#include "daemon/pipeline/requests/schedule_trial.hpp"
#include "daemon/pipeline/routes.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

constexpr std::size_t kLookers = 8;              ///< so many engines of guards are looked at at the same time
constexpr std::int64_t kIdleUs = 3'600'000'000;  ///< the helper thread has no timer

/// How long an answer waits for a job's folder.
constexpr std::chrono::milliseconds kFolderPatience{2'000};

/// Who listens. Callbacks run under the lock, so that none runs after its subscription's end.
class Listeners {
 public:
  using OnEvent = std::function<void(const Event&)>;

  std::list<OnEvent>::iterator add(OnEvent on_event) {
    const std::lock_guard guard(mutex_);
    return list_.insert(list_.end(), std::move(on_event));
  }
  void remove(std::list<OnEvent>::iterator at) {
    const std::lock_guard guard(mutex_);
    list_.erase(at);
  }
  void tell(const Event& event) {
    const std::lock_guard guard(mutex_);
    for (const auto& on_event : list_) on_event(event);
  }

 private:
  std::mutex mutex_;
  std::list<OnEvent> list_;
};

class Listening final : public Subscription {
 public:
  Listening(std::shared_ptr<Listeners> listeners, Listeners::OnEvent on_event)
      : listeners_(std::move(listeners)), at_(listeners_->add(std::move(on_event))) {}
  ~Listening() override { listeners_->remove(at_); }

 private:
  std::shared_ptr<Listeners> listeners_;
  std::list<Listeners::OnEvent>::iterator at_;
};

class PipelineImpl final : public Pipeline {
 public:
  explicit PipelineImpl(Parts parts)
      : store_(parts.store),
        driver_(parts.driver),
        runner_(parts.runner),
        own_committer_(parts.store),
        clock_(parts.clock != nullptr ? *parts.clock : own_clock_),
        committer_(parts.committer != nullptr ? *parts.committer : own_committer_),
        threaded_(parts.threaded),
        listeners_(std::make_shared<Listeners>()),
        registry_(
            settings_, store_, committer_, clock_,
            [this](const Event& event) {
              context().figures.note(event);
              listeners_->tell(event);
            },
            std::move(parts.router_mark)),
        settings_(parts.settings),
        lists_(runner_, settings_.blackouts),
        coordinator_(world(std::move(parts))) {
    for (std::size_t i = 0; i < kLookers; ++i) lookers_.emplace_back(threaded_);
  }

  ~PipelineImpl() override { stop(); }

  schema::Result<void> start() override {
    runner_.on_done([this](jobs::JobDone done) {
      auto kept = files_to_keep(done);
      post([this, done = std::move(done), kept = std::move(kept)] { coordinator_.job_done(done, kept); });
    });
    if (threaded_) helper_.run([] { return kIdleUs; });
    if (threaded_) files_.run([] { return kIdleUs; });
    for (auto& looker : lookers_)
      if (threaded_) looker.run([] { return kIdleUs; });
    auto started = coordinator_.start();
    if (started && threaded_) loop_.run([this] { return coordinator_.tick(); });
    return started;
  }

  void stop() override {
    if (stopped_.exchange(true)) return;
    runner_.on_done({});
    loop_.stop();
    helper_.stop();
    files_.stop();
    std::ranges::for_each(lookers_, &Loop::stop);
  }

  void router_replaced(route::RouterLoss loss, std::function<void()> recorded) override {
    post([this, loss = std::move(loss), recorded = std::move(recorded)]() mutable {
      coordinator_.router_replaced(std::move(loss), std::move(recorded));
    });
  }

  void tick() override {
    (void)loop_.call<void>([&]() -> schema::Result<void> {
      (void)coordinator_.tick();
      return {};
    });
  }

  schema::Result<std::vector<std::string>> try_recipe(const std::string& document) override {
    return check_recipe(store_, settings_, document);
  }

  schema::Result<std::vector<std::string>> try_request(const std::string& actor,
                                                       const PromotionRequest& request) override {
    return pipeline::try_request(
        {.store = store_,
         .adapters = settings_.adapters,
         .faults =
             [&](const std::string& who, const PromotionRequest& asked) {
               return find_faults(store_, settings_, driver_.capabilities(), who, asked);
             },
         .reach = [&](const std::string& url) { return context().world.health(url); }},
        actor, request);
  }

  schema::Result<View> register_contract(const std::string& actor, std::string_view text,
                                         const std::string& name) override {
    return registry_.contract(actor, text, name);
  }
  schema::Result<View> register_kernel(const std::string& actor, std::string_view json) override {
    return registry_.kernel(actor, json);
  }
  schema::Result<View> register_engine(const std::string& actor, const EngineRequest& request) override {
    auto view = TRY(registry_.engine(actor, request));
    // The router may hold routes to this URL, under the key of its registration before.
    if (view.created) {
      const auto url = net::engine_base_url(request.url);
      if (url) post([this, url = *url] { apply_routes_again(context(), url); });
    }
    return view;
  }

  schema::Result<View> create_model(const std::string& actor, const ModelRequest& request) override {
    auto made = TRY(on_loop<std::string>([&] { return pipeline::create_model(context(), actor, request); }));
    auto view = model(made);
    if (view) view->created = true;
    return view;
  }

  schema::Result<View> plan_promotion(const std::string& actor, const PromotionRequest& request) override {
    auto checked = TRY(check(actor, request));
    return plan_view(store_, checked, settings_);
  }

  schema::Result<View> request_promotion(const std::string& actor, const PromotionRequest& request) override {
    auto checked = TRY(check_decidable(actor, request));
    auto verified = TRY(registry_.verify_checkpoint(checked.engine));
    auto id = TRY(on_loop<std::string>(
        [&] { return pipeline::request_promotion(context(), actor, checked, verified); }));
    auto view = promotion(id);
    if (view) view->created = true;
    return view;
  }

  schema::Result<View> approve(const std::string& actor, const std::string& id, const std::string& digest,
                               const std::string& reason) override {
    return changed(id, [&] { return people::approve(context(), actor, id, digest, reason); });
  }
  schema::Result<View> waive(const std::string& actor, const std::string& id, const std::string& clause,
                             const std::string& digest, const std::string& reason) override {
    return changed(id, [&] { return people::waive(context(), actor, id, clause, digest, reason); });
  }
  schema::Result<View> abort(const std::string& actor, const std::string& id, const Order& order) override {
    return changed_as_shown(id, order, [&] { return people::abort(context(), actor, id, order.reason); });
  }
  schema::Result<View> rollback(const std::string& actor, const std::string& id,
                                const Order& order) override {
    return changed_as_shown(id, order, [&] { return coordinator_.rollback(actor, id, order.reason); });
  }
  schema::Result<View> pause(const std::string& actor, const std::string& id, const Order& order) override {
    return changed_as_shown(id, order, [&] { return people::pause(context(), actor, id, order.reason); });
  }
  schema::Result<View> resume(const std::string& actor, const std::string& id, const Order& order) override {
    return changed_as_shown(id, order, [&] { return people::resume(context(), actor, id, order.reason); });
  }
  schema::Result<View> lift_hold(const std::string& actor, const std::string& name,
                                 const std::string& reason) override {
    TRY(on_loop<void>([&] { return people::lift_hold(context(), actor, name, reason); }));
    return model(name);
  }

  schema::Result<View> lift_block(const std::string& actor, const std::string& id,
                                  const std::string& reason) override {
    TRY(on_loop<void>([&] { return people::lift_block(context(), actor, id, reason); }));
    return view_found(store_, "block", id, store::find_block, block_view);
  }

  schema::Result<View> cancel_job(const std::string& actor, const std::string& id,
                                  const std::string& reason) override {
    TRY(on_loop<void>([&] { return people::cancel_job(context(), actor, id, reason); }));
    return job(id, false);
  }
  schema::Result<View> job(const std::string& id, bool with_folder) override {
    const auto row = TRY(look_up(store_, store::get_job, id));
    const auto logs = files_.call_within<std::vector<std::string>>(
        kFolderPatience, [dir = row.dir] { return jobs::JobFolder(dir).printed(); });
    return job_view(row, runner_, logs.value_or(std::vector<std::string>{}), with_folder);
  }
  schema::Result<Page> jobs(const JobFilter& filter, const PageRequest& page) override {
    return store_.read([&](store::Reader& reader) { return job_page(reader, runner_, filter, page); });
  }
  schema::Result<View> job_log(const JobLogRequest& request) override {
    const auto row = TRY(look_up(store_, store::get_job, request.job));
    auto view =
        files_.call_within<View>(kFolderPatience, [row, request] { return job_log_view(row, request); });
    if (!view && view.error().code == ErrorCode::unavailable)
      return schema::wrap(view.error(), fmt::format("the folder of job {} cannot be read now", row.id));
    return view;
  }

  schema::Result<View> contract(const std::string& name) override {
    const bool digest = name.starts_with("sha256:");
    return view_found(store_, "contract", name, digest ? store::find_contract : store::find_contract_by_name,
                      contract_view);
  }
  schema::Result<View> kernel(const std::string& name) override {
    return view_found(store_, "kernel", name, store::find_kernel, kernel_view);
  }
  schema::Result<View> engine(const std::string& name) override {
    return look_up(store_, named_engine_view, name, settings_.engine_files);
  }
  schema::Result<View> model(const std::string& name) override {
    return look_up(store_, named_model_view, name);
  }
  schema::Result<View> promotion(const std::string& id) override {
    return store_.read([&](store::Reader& reader) { return lists_.promotion(reader, id, clock_.now_us()); });
  }
  schema::Result<View> promotion_item(const std::string& id) override {
    return store_.read([&](store::Reader& reader) { return lists_.item(reader, id, clock_.now_us()); });
  }
  schema::Result<std::vector<View>> open_items() override {
    return store_.read([&](store::Reader& reader) { return lists_.open_items(reader, clock_.now_us()); });
  }
  schema::Result<Overview> overview(const std::string& text, const PageRequest& page) override {
    return store_.read(
        [&](store::Reader& reader) { return lists_.overview(reader, text, page, clock_.now_us()); });
  }
  schema::Result<View> report(const std::string& id, const std::string& stage) override {
    return look_up(store_, report_view, id, stage);
  }

  schema::Result<View> what_if(const std::string& id, std::string_view text,
                               const std::stop_token& stop) override {
    const auto report = schema::parse_contract(text, "contract");
    if (!report.contract) {
      return schema::fail(ErrorCode::invalid_document, schema::format_faults(report.faults, "contract"));
    }
    return pipeline::what_if(store_, id, *report.contract, stop);
  }

  schema::Result<Page> contracts(const PageRequest& page) override {
    return view_page(store_, page, store::list_contracts, contract_view, &store::ContractRow::digest);
  }
  schema::Result<Page> kernels(const PageRequest& page) override {
    return view_page(store_, page, store::list_kernels, kernel_view, &store::KernelRow::name);
  }
  schema::Result<Page> engines(const PageRequest& page) override {
    const auto view = [this](store::Reader& reader, const store::EngineRow& row) {
      return stored_engine_view(reader, row, settings_.engine_files);
    };
    return view_page(store_, page, store::list_engines, view, &store::EngineRow::name);
  }
  schema::Result<Page> models(const PageRequest& page) override {
    return view_page(store_, page, store::list_models, model_view, &store::ModelRow::name);
  }
  schema::Result<Page> blocks(const PageRequest& page) override {
    return view_page(store_, page, store::list_blocks, block_view, &store::BlockRow::id);
  }
  schema::Result<Page> promotions(const PromotionFilter& filter, const PageRequest& page) override {
    return store_.read(
        [&](store::Reader& reader) { return lists_.page(reader, filter, page, clock_.now_us()); });
  }

  std::unique_ptr<Subscription> subscribe(std::function<void(const Event&)> on_event) override {
    return std::make_unique<Listening>(listeners_, std::move(on_event));
  }

  schema::Result<Outcome> outcome(const std::string& id) override {
    const auto row = TRY(look_up(store_, store::get_promotion, id));
    return Outcome{std::string(store::to_string(row.state)), store::is_terminal(row.state)};
  }

  ServiceFigures figures() override;

  std::vector<std::string> unrecorded_withdrawals() override { return loop_figures().unrecorded; }

 private:
  World world(Parts parts) {
    auto random =
        parts.random ? std::move(parts.random) : std::function<store::IdRandom()>(store::secure_id_random);
    auto health = parts.health ? std::move(parts.health)
                               : Health([this](const std::string& url) { return health_of(url); });
    auto probe = parts.probe ? std::move(parts.probe)
                             : Probe([this](const jobs::GoldenEngine& engine, const std::string& prompt) {
                                 return golden_answer(engine, prompt);
                               });
    auto identify = parts.identify ? std::move(parts.identify)
                                   : Identify([this](const std::string& url, const std::string& model) {
                                       return identity_of(url, model);
                                     });
    auto rescore = parts.rescore
                       ? std::move(parts.rescore)
                       : Rescore([this](const jobs::KeptAnswers& kept, const jobs::RescoreEngine& reference,
                                        const jobs::RescoreEngine& served) {
                           return next_answer(kept, reference, served);
                         });
    return World{
        .settings = std::move(parts.settings),
        .store = store_,
        .committer = committer_,
        .driver = parts.driver,
        .runner = runner_,
        .clock = clock_,
        .random = std::move(random),
        .instance = std::move(parts.instance),
        .log = std::move(parts.log),
        .publish =
            [this](const Event& event) {
              if (event.kind == "state_changed") transitions_.fetch_add(1);
              listeners_->tell(event);
            },
        .check = [this](const std::string& actor,
                        const PromotionRequest& request) { return check_decidable(actor, request); },
        .verify = [this](const store::EngineRow& engine) { return registry_.verify_checkpoint(engine); },
        .offload = [this](std::function<void()> work,
                          std::function<void()> then) { offload(helper_, std::move(work), std::move(then)); },
        .health = std::move(health),
        .look =
            [this](std::function<void()> work, std::function<void()> then) {
              offload(idlest_looker(), std::move(work), std::move(then));
            },
        .probe = std::move(probe),
        .identify = std::move(identify),
        .rescore = std::move(rescore),
        .outbox = std::move(parts.outbox)};
  }

  // The engines of the world outside, each with what it asks for as it is registered now. From any thread.
  using Health = decltype(Parts::health);
  using Probe = decltype(Parts::probe);
  using Identify = decltype(Parts::identify);
  using Rescore = decltype(Parts::rescore);

  schema::Result<base::EngineAccess> access_to(const std::string& url) {
    return look_up(store_, store::access_at, url);
  }
  schema::Result<void> health_of(const std::string& url) {
    auto access = TRY(access_to(url));
    return check_health({url, std::move(access)}, settings_.outgoing);
  }
  schema::Result<jobs::GoldenAnswer> golden_answer(jobs::GoldenEngine engine, const std::string& prompt) {
    auto access = TRY(access_to(engine.base_url));
    engine.access = std::move(access);
    return jobs::ask_golden(engine, prompt, settings_.outgoing);
  }
  schema::Result<stages::Identity> identity_of(const std::string& url, const std::string& model) {
    auto access = TRY(access_to(url));
    return jobs::read_identity({url, std::move(access)}, model, settings_.outgoing);
  }

  schema::Result<jobs::NextAnswer> next_answer(const jobs::KeptAnswers& kept, jobs::RescoreEngine reference,
                                               jobs::RescoreEngine served) {
    for (auto* engine : {&reference, &served}) {
      auto access = TRY(access_to(engine->base_url));
      engine->access = std::move(access);
    }
    return jobs::rescore_next(kept, reference, served, settings_.outgoing);
  }

  /// In turn, but for those behind an engine that hangs. The loop alone asks.
  Loop& idlest_looker() {
    auto* idlest = &lookers_[next_looker_++ % kLookers];
    for (auto& looker : lookers_)
      if (looker.queued() < idlest->queued()) idlest = &looker;
    return *idlest;
  }

  /// One work at a time on each helper: evaluations of several models queue behind each other.
  void offload(Loop& helper, std::function<void()> work, std::function<void()> then) {
    if (!threaded_) {
      work();
      return then();
    }
    helper.post([this, work = std::move(work), then = std::move(then)] {
      work();
      post(then);
    });
  }

  /// An event on the loop, with all that follows from it; waits for it.
  template <typename T>
  schema::Result<T> on_loop(std::function<schema::Result<T>()> event) {
    return loop_.call<T>([&]() -> schema::Result<T> {
      auto done = event();
      coordinator_.settle();
      return done;
    });
  }

  /// An event on the loop, with all that follows from it; returns at once.
  void post(std::function<void()> event) {
    loop_.post([this, event = std::move(event)] {
      event();
      coordinator_.settle();
    });
  }

  [[nodiscard]] Context& context() { return coordinator_.context(); }
  /// As the loop told them last.
  [[nodiscard]] ServiceFigures loop_figures() {
    return threaded_ ? context().figures.loop() : coordinator_.figures();
  }

  schema::Result<CheckedRequest> check(const std::string& actor, const PromotionRequest& request) {
    return check_request(store_, settings_, driver_.capabilities(), actor, request);
  }

  /// Refused where a hard clause cannot be decided, unless the request accepts that.
  schema::Result<CheckedRequest> check_decidable(const std::string& actor, const PromotionRequest& request) {
    auto checked = TRY(check(actor, request));
    if (!request.accept_undecidable) TRY(refuse_ability_gaps(checked.gaps));
    return checked;
  }

  /// As `changed`, unless what the person was shown is not what there is: on the loop nothing changes in
  /// between.
  template <typename F>
  schema::Result<View> changed_as_shown(const std::string& id, const Order& order, F change) {
    return changed(id, [&]() -> schema::Result<void> {
      if (!order.evidence_shown.empty()) {
        TRY(store_.read([&](store::Reader& reader) {
          return lists_.check(reader, id, order.evidence_shown, clock_.now_us());
        }));
      }
      return change();
    });
  }

  template <typename F>
  schema::Result<View> changed(const std::string& id, F change) {
    TRY(on_loop<void>([&]() -> schema::Result<void> { return change(); }));
    return promotion(id);
  }

  store::Store& store_;
  route::Driver& driver_;
  jobs::JobRunner& runner_;
  SystemClock own_clock_;
  StoreCommitter own_committer_;
  Clock& clock_;
  Committer& committer_;
  bool threaded_;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint64_t> transitions_ = 0;
  std::shared_ptr<Listeners> listeners_;
  Registry registry_;
  Settings settings_;
  PromotionLists lists_;
  Loop loop_{threaded_};
  Loop helper_{threaded_};
  Loop files_{threaded_};     ///< for looks into the folders of jobs, which may hang
  std::deque<Loop> lookers_;  ///< for looks at the engines of guards, which may hang
  std::size_t next_looker_ = 0;
  Coordinator coordinator_;
};

/// Waits for nobody: a loop that hangs is seen by the age of what it told last.
ServiceFigures PipelineImpl::figures() {
  auto& kept = context().figures;
  auto figures = loop_figures();
  figures.live = kept.snapshot();
  if (figures.live.seen_us > 0) {
    figures.seen_age_ms = std::max<std::int64_t>(0, (clock_.now_us() - figures.live.seen_us) / 1'000);
    if (threaded_ && figures.telemetry_age_ms >= 0) figures.telemetry_age_ms += figures.seen_age_ms;
  }
  (void)store_.read([&](store::Reader& reader) -> schema::Result<void> {
    const auto open = TRY(store::open_promotions(reader));
    for (const auto& row : open) figures.promotions_by_state[std::string(store::to_string(row.state))] += 1;
    const auto names = TRY(store::list_models(reader, "", 10'000));
    figures.models = names.size();
    for (const auto& row : names)
      if (row.hold) figures.held.push_back(row.name);
    auto jobs = TRY(count_jobs(reader, runner_));
    figures.jobs = std::move(jobs);
    return {};
  });
  figures.jobs_running = runner_.running();
  figures.queue_length = loop_.queued();
  figures.transitions = transitions_.load();
  return figures;
}

}  // namespace

std::unique_ptr<Pipeline> Pipeline::create(Parts parts) {
  return std::make_unique<PipelineImpl>(std::move(parts));
}

}  // namespace driftgate::pipeline
