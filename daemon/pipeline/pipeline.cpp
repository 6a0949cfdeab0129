#include "daemon/pipeline/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/engine_health.hpp"
#include "daemon/pipeline/loop.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/pipeline/plan_data.hpp"
#include "daemon/pipeline/registry.hpp"
#include "daemon/pipeline/views.hpp"
#include "daemon/pipeline/what_if.hpp"
#include "schema/contract/contract.hpp"
#include "schema/contract/stored_contract.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

constexpr std::uint64_t kPowerSeed = 1;
constexpr std::int64_t kIdleUs = 3'600'000'000;  ///< the helper has no timer of its own

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
        runner_(parts.runner),
        own_committer_(parts.store),
        clock_(parts.clock != nullptr ? *parts.clock : own_clock_),
        committer_(parts.committer != nullptr ? *parts.committer : own_committer_),
        threaded_(parts.threaded),
        listeners_(std::make_shared<Listeners>()),
        registry_(settings_, store_, committer_, clock_,
                  [this](const Event& event) { listeners_->tell(event); },
                  std::move(parts.router_mark)),
        settings_(parts.settings),
        core_(world(std::move(parts))) {}

  ~PipelineImpl() override { stop(); }

  schema::Result<void> start() override {
    runner_.on_done([this](jobs::JobDone done) {
      loop_.post([this, done = std::move(done)] { core_.on_job_done(done); });
    });
    if (threaded_) helper_.run([] { return kIdleUs; });
    auto started = core_.start();
    if (started && threaded_) loop_.run([this] { return core_.tick(); });
    return started;
  }

  void stop() override {
    if (stopped_.exchange(true)) return;
    runner_.on_done({});
    loop_.stop();
    helper_.stop();
  }

  void router_replaced(route::RouterLoss loss, std::function<void()> recorded) override {
    loop_.post([this, loss = std::move(loss), recorded = std::move(recorded)]() mutable {
      core_.router_replaced(std::move(loss), std::move(recorded));
    });
  }

  void tick() override { (void)core_.tick(); }

  schema::Result<View> register_contract(const std::string& actor, std::string_view text,
                                         const std::string& name) override {
    return registry_.contract(actor, text, name);
  }
  schema::Result<View> register_kernel(const std::string& actor, std::string_view json) override {
    return registry_.kernel(actor, json);
  }
  schema::Result<View> register_engine(const std::string& actor, const EngineRequest& request) override {
    return registry_.engine(actor, request);
  }

  schema::Result<View> create_model(const std::string& actor, const ModelRequest& request) override {
    auto made = loop_.call<std::string>([&] { return core_.create_model(actor, request); });
    if (!made) return std::unexpected(made.error());
    auto view = model(*made);
    if (view) view->created = true;
    return view;
  }

  schema::Result<View> plan_promotion(const std::string& actor, const PromotionRequest& request) override {
    auto prepared = loop_.call<store::PromotionRow>([&] { return core_.prepare(actor, request); });
    if (!prepared) return std::unexpected(prepared.error());
    auto plan = store_.read([&](store::Reader& reader) { return plan_view(reader, *prepared); });
    if (!plan) return plan;
    return with_unfit_data(std::move(*plan), *prepared);
  }

  schema::Result<View> request_promotion(const std::string& actor, const PromotionRequest& request) override {
    auto verified = registry_.verify_checkpoint(request.engine);
    if (!verified) return std::unexpected(verified.error());
    auto id = loop_.call<std::string>([&] { return core_.request(actor, request, *verified); });
    if (!id) return std::unexpected(id.error());
    auto view = promotion(*id);
    if (view) view->created = true;
    return view;
  }

  schema::Result<View> approve(const std::string& actor, const std::string& id, const std::string& digest,
                               const std::string& reason) override {
    return changed(id, [&] { return core_.approve(actor, id, digest, reason); });
  }
  schema::Result<View> waive(const std::string& actor, const std::string& id, const std::string& clause,
                             const std::string& digest, const std::string& reason) override {
    return changed(id, [&] { return core_.waive(actor, id, clause, digest, reason); });
  }
  schema::Result<View> abort(const std::string& actor, const std::string& id,
                             const std::string& reason) override {
    return changed(id, [&] { return core_.abort(actor, id, reason); });
  }
  schema::Result<View> rollback(const std::string& actor, const std::string& id,
                                const std::string& reason) override {
    return changed(id, [&] { return core_.rollback(actor, id, reason); });
  }
  schema::Result<View> pause(const std::string& actor, const std::string& id,
                             const std::string& reason) override {
    return changed(id, [&] { return core_.pause(actor, id, reason); });
  }
  schema::Result<View> resume(const std::string& actor, const std::string& id,
                              const std::string& reason) override {
    return changed(id, [&] { return core_.resume(actor, id, reason); });
  }
  schema::Result<View> lift_hold(const std::string& actor, const std::string& name,
                                 const std::string& reason) override {
    auto done = loop_.call<void>([&] { return core_.lift_hold(actor, name, reason); });
    if (!done) return std::unexpected(done.error());
    return model(name);
  }

  schema::Result<View> lift_block(const std::string& actor, const std::string& id,
                                  const std::string& reason) override {
    auto done = loop_.call<void>([&] { return core_.lift_block(actor, id, reason); });
    if (!done) return std::unexpected(done.error());
    return found(id, "block", block_view,
                 [&](store::Reader& reader) { return store::find_block(reader, id); });
  }

  schema::Result<View> contract(const std::string& name) override {
    return found(name, "contract", contract_view, [&](store::Reader& reader) {
      return name.starts_with("sha256:") ? store::find_contract(reader, name)
                                         : store::find_contract_by_name(reader, name);
    });
  }
  schema::Result<View> kernel(const std::string& name) override {
    return found(name, "kernel", kernel_view,
                 [&](store::Reader& reader) { return store::find_kernel(reader, name); });
  }
  schema::Result<View> engine(const std::string& name) override {
    return found(name, "engine", engine_view,
                 [&](store::Reader& reader) { return store::find_engine(reader, name); });
  }
  schema::Result<View> model(const std::string& name) override {
    return store_.read([&](store::Reader& reader) -> schema::Result<View> {
      auto row = store::get_model(reader, name);
      if (!row) return std::unexpected(row.error());
      return model_view(reader, *row);
    });
  }
  schema::Result<View> promotion(const std::string& id) override {
    return store_.read([&](store::Reader& reader) -> schema::Result<View> {
      auto row = store::get_promotion(reader, id);
      if (!row) return std::unexpected(row.error());
      return promotion_view(reader, *row, runner_, clock_.now_us());
    });
  }
  schema::Result<View> report(const std::string& id, const std::string& stage) override {
    return store_.read([&](store::Reader& reader) { return report_view(reader, id, stage); });
  }

  schema::Result<View> what_if(const std::string& id, std::string_view text) override {
    const auto report = schema::parse_contract(text, "contract");
    if (!report.contract) {
      return schema::fail(ErrorCode::invalid_document, schema::format_faults(report.faults, "contract"));
    }
    return pipeline::what_if(store_, id, *report.contract);
  }

  schema::Result<Page> contracts(const PageRequest& page) override {
    return paged(
        page,
        [](store::Reader& reader, const std::string& after, std::int64_t limit) {
          return store::list_contracts(reader, after, limit);
        },
        [](store::Reader&, const store::ContractRow& row) -> schema::Result<View> {
          return contract_view(row);
        },
        [](const store::ContractRow& row) { return row.digest; });
  }
  schema::Result<Page> kernels(const PageRequest& page) override {
    return paged(
        page,
        [](store::Reader& reader, const std::string& after, std::int64_t limit) {
          return store::list_kernels(reader, after, limit);
        },
        [](store::Reader&, const store::KernelRow& row) -> schema::Result<View> { return kernel_view(row); },
        [](const store::KernelRow& row) { return row.name; });
  }
  schema::Result<Page> engines(const PageRequest& page) override {
    return paged(
        page,
        [](store::Reader& reader, const std::string& after, std::int64_t limit) {
          return store::list_engines(reader, after, limit);
        },
        [](store::Reader&, const store::EngineRow& row) -> schema::Result<View> { return engine_view(row); },
        [](const store::EngineRow& row) { return row.name; });
  }
  schema::Result<Page> models(const PageRequest& page) override {
    return paged(
        page,
        [](store::Reader& reader, const std::string& after, std::int64_t limit) {
          return store::list_models(reader, after, limit);
        },
        [](store::Reader& reader, const store::ModelRow& row) { return model_view(reader, row); },
        [](const store::ModelRow& row) { return row.name; });
  }
  schema::Result<Page> blocks(const PageRequest& page) override {
    return paged(
        page,
        [](store::Reader& reader, const std::string& after, std::int64_t limit) {
          return store::list_blocks(reader, after, limit);
        },
        [](store::Reader&, const store::BlockRow& row) -> schema::Result<View> { return block_view(row); },
        [](const store::BlockRow& row) { return row.id; });
  }
  schema::Result<Page> promotions(const PromotionFilter& filter, const PageRequest& page) override {
    store::PromotionFilter wanted;
    if (!filter.model.empty()) wanted.model = filter.model;
    if (!filter.state.empty()) {
      auto state = store::parse_promotion_state(filter.state);
      if (!state) return std::unexpected(state.error());
      wanted.state = *state;
    }
    return paged(
        page,
        [&](store::Reader& reader, const std::string& after, std::int64_t limit) {
          wanted.before = after.empty() ? std::nullopt : std::optional(after);
          wanted.limit = limit;
          return store::list_promotions(reader, wanted);
        },
        [&](store::Reader& reader, const store::PromotionRow& row) {
          return promotion_view(reader, row, runner_, clock_.now_us());
        },
        [](const store::PromotionRow& row) { return row.id; });
  }

  std::unique_ptr<Subscription> subscribe(std::function<void(const Event&)> on_event) override {
    return std::make_unique<Listening>(listeners_, std::move(on_event));
  }

  schema::Result<Outcome> outcome(const std::string& id) override {
    auto row = store_.read([&](store::Reader& reader) { return store::get_promotion(reader, id); });
    if (!row) return std::unexpected(row.error());
    return Outcome{std::string(store::to_string(row->state)), store::is_terminal(row->state)};
  }

  ServiceFigures figures() override;

 private:
  World world(Parts parts) {
    auto random =
        parts.random ? std::move(parts.random) : std::function<store::IdRandom()>(store::secure_id_random);
    auto health = parts.health ? std::move(parts.health)
                               : [policy = settings_.outgoing](const std::string& base_url) {
                                   return check_health(base_url, policy);
                                 };
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
        .verify = [this](const std::string& engine) { return registry_.verify_checkpoint(engine); },
        .offload = [this](std::function<void()> work,
                          std::function<void()> then) { offload(std::move(work), std::move(then)); },
        .health = std::move(health),
        .outbox = std::move(parts.outbox)};
  }

  /// One helper at a time: evaluations of several models queue behind each other on its thread.
  void offload(std::function<void()> work, std::function<void()> then) {
    if (!threaded_) {
      work();
      return then();
    }
    helper_.post([this, work = std::move(work), then = std::move(then)] {
      work();
      loop_.post(then);
    });
  }

  /// Adds "unfit": which clauses the corpora of the request cannot decide, or seldom would.
  schema::Result<View> with_unfit_data(View plan, const store::PromotionRow& promotion) {
    auto request = parse_promotion_request(promotion.request);
    if (!request) return std::unexpected(request.error());
    auto stored =
        store_.read([&](store::Reader& reader) { return store::find_contract(reader, promotion.contract); });
    if (!stored) return std::unexpected(stored.error());
    const auto report = *stored ? schema::parse_stored_contract((*stored)->canonical, (*stored)->name)
                                : schema::ContractReport{};
    if (!report.contract) return schema::fail(ErrorCode::corrupt, "the stored contract cannot be read");
    auto value = nlohmann::json::parse(plan.json);
    value["unfit"] = nlohmann::json::array();
    for (const auto& fit : unfit_data(*report.contract, *request, settings_.roots, kPowerSeed)) {
      value["unfit"].push_back({{"stage", schema::to_string(fit.stage)},
                                {"clause", fit.clause},
                                {"slice", fit.slice},
                                {"have", fit.have},
                                {"least", fit.least},
                                {"at_half", fit.at_half ? nlohmann::json(*fit.at_half) : nlohmann::json(nullptr)},
                                {"message", fit.sentence}});
    }
    plan.json = schema::canonical_json(value);
    return plan;
  }

  template <typename F>
  schema::Result<View> changed(const std::string& id, F change) {
    auto done = loop_.call<void>([&]() -> schema::Result<void> { return change(); });
    if (!done) return std::unexpected(done.error());
    return promotion(id);
  }

  template <typename ViewOf, typename Find>
  schema::Result<View> found(const std::string& name, const char* what, ViewOf view_of, Find find) {
    auto row = store_.read(find);
    if (!row) return std::unexpected(row.error());
    if (!*row) return schema::fail(ErrorCode::not_found, fmt::format("there is no {} {}", what, name));
    return view_of(**row);
  }

  template <typename List, typename ViewOf, typename IdOf>
  schema::Result<Page> paged(const PageRequest& request, List list, ViewOf view_of, IdOf id_of) {
    if (request.limit < 1 || request.limit > kMaxPageItems) {
      return schema::fail(ErrorCode::invalid_argument,
                          fmt::format("a page has 1 to {} items", kMaxPageItems));
    }
    return store_.read([&](store::Reader& reader) -> schema::Result<Page> {
      auto rows = list(reader, request.after, static_cast<std::int64_t>(request.limit) + 1);
      if (!rows) return std::unexpected(rows.error());
      Page page;
      for (std::size_t i = 0; i < std::min(rows->size(), request.limit); ++i) {
        auto view = view_of(reader, (*rows)[i]);
        if (!view) return std::unexpected(view.error());
        page.items.push_back(std::move(*view));
        if (i + 1 == request.limit && rows->size() > request.limit) page.next = id_of((*rows)[i]);
      }
      return page;
    });
  }

  store::Store& store_;
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
  Loop loop_{threaded_};
  Loop helper_{threaded_};
  Core core_;
};

ServiceFigures PipelineImpl::figures() {
  ServiceFigures figures;
  (void)store_.read([&](store::Reader& reader) -> schema::Result<void> {
    auto open = store::open_promotions(reader);
    if (!open) return std::unexpected(open.error());
    for (const auto& row : *open) figures.promotions_by_state[std::string(store::to_string(row.state))] += 1;
    auto names = store::list_models(reader, "", 10'000);
    if (!names) return std::unexpected(names.error());
    figures.models = names->size();
    return {};
  });
  figures.jobs_running = runner_.running();
  figures.queue_length = loop_.queued();
  figures.transitions = transitions_.load();
  const auto rest = loop_.call<ServiceFigures>([&]() -> schema::Result<ServiceFigures> {
    ServiceFigures found;
    found.telemetry_age_ms = core_.telemetry_age_ms();
    found.route_agrees = core_.routes_agree();
    found.windows = core_.windows_seen();
    return found;
  });
  if (rest) {
    figures.telemetry_age_ms = rest->telemetry_age_ms;
    figures.route_agrees = rest->route_agrees;
    figures.windows = rest->windows;
  }
  return figures;
}

}  // namespace

std::unique_ptr<Pipeline> Pipeline::create(Parts parts) {
  return std::make_unique<PipelineImpl>(std::move(parts));
}

}  // namespace driftgate::pipeline
