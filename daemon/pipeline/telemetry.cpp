#include "daemon/pipeline/telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "daemon/pipeline/routes.hpp"
#include "daemon/store/promotions/router_windows.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::size_t kWindowsPerRead = 1'024;
// Of a model that is held up; beyond them the data plane keeps its windows.
constexpr std::size_t kMaxHeldWindows = 16;
constexpr std::size_t kMaxHeldObservations = 32'768;
constexpr std::size_t kMaxObservationsOfAll = 262'144;  // of all models that are held up
constexpr std::size_t kMaxTogether = 128;               // in one transaction
constexpr std::size_t kMaxRouters = 16;                 // whose positions are remembered

}  // namespace

void Telemetry::read() {
  stuck_.clear();
  for (bool more = true; more;) {
    more = fetch();
    consume();
    acknowledge();
  }
}

Telemetry::HeldByModel Telemetry::held() const {
  HeldByModel held;
  for (const auto& waiting : waiting_) {
    auto& of_model = held[waiting.window.model];
    of_model.windows += 1;
    of_model.observations += waiting.window.observations.size();
  }
  return held;
}

/// Begins to read windows that were left again, where nothing of their model waits any more.
void Telemetry::read_again(const HeldByModel& held) {
  for (const auto& [id, router] : routers_) {
    for (const auto& [model, first] : router.left) {
      if (held.contains(model)) continue;
      again_from_ = again_ ? std::min(again_from_, first - 1) : first - 1;
      again_ = {id, again_from_};
    }
    if (again_) return left_again_.clear();
  }
}

/// Whether the window is new and its model has room. One that is new and has none is left.
bool Telemetry::is_wanted(const route::Window& window, HeldByModel& held) {
  auto& router = routers_[window.router_id];
  const auto left = router.left.find(window.model);
  const bool is_new = left == router.left.end() ? window.number > router.read : window.number >= left->second;
  router.read = std::max(router.read, window.number);
  // One router follows another: what is not acknowledged comes again.
  if (!is_new) return false;
  std::size_t of_all = 0;
  for (const auto& [model, waiting] : held) of_all += waiting.observations;
  const auto found = held.find(window.model);
  const bool room = found == held.end() ||
                    (found->second.windows < kMaxHeldWindows &&
                     found->second.observations < kMaxHeldObservations && of_all < kMaxObservationsOfAll);
  const bool in_turn = left == router.left.end() ||
                       (again_ && again_->router_id == window.router_id && again_from_ < left->second);
  if (!room || !in_turn || left_again_.contains(window.model)) {
    router.left.try_emplace(window.model, window.number);
    left_again_.insert(window.model);
    return false;
  }
  if (left != router.left.end()) left->second = window.number + 1;
  if (found == held.end()) return true;
  found->second.windows += 1;
  found->second.observations += window.observations.size();
  return true;
}

/// Goes on behind a page of windows that are read again, up to `newest` of their router, 0 = none.
void Telemetry::end_page(std::uint64_t newest) {
  auto& router = routers_[again_->router_id];
  if (newest > again_->number && newest < router.read) {
    again_->number = newest;
    return;
  }
  again_.reset();
  std::erase_if(router.left, [this](const auto& item) { return !left_again_.contains(item.first); });
}

/// True when there may be more to read.
bool Telemetry::fetch() {
  auto held_up = held();
  if (!again_) read_again(held_up);
  auto windows = context_.world.driver.windows(again_ ? *again_ : last_, kWindowsPerRead);
  if (!windows) {
    context_.warn(fmt::format("telemetry cannot be read: {}", windows.error().describe()));
    return false;
  }
  bool more = false;
  std::uint64_t newest = 0;
  for (auto& window : *windows) {
    if (again_ && window.router_id == again_->router_id) newest = window.number;
    if (!again_) last_ = {window.router_id, window.number};
    if (!is_wanted(window, held_up)) continue;
    waiting_.push_back({std::move(window)});
    more = true;
  }
  if (!again_) return more;
  end_page(newest);
  return true;
}

/// The first window of each model that can go on now, those of running stages first: users of a candidate do
/// not wait for models at rest.
std::vector<Telemetry::Waiting*> Telemetry::next_batch() {
  std::vector<Waiting*> batch;
  std::vector<Waiting*> at_rest;
  std::set<std::string_view> models(stuck_.begin(), stuck_.end());
  if (!context_.effects.empty()) models.insert(unsettled_.begin(), unsettled_.end());
  for (auto& waiting : waiting_) {
    if (!models.insert(waiting.window.model).second) continue;
    const auto* const live = stage_of(context_, waiting.window);
    if (live != nullptr && live->retry_at_us != 0) continue;  // it is being read from the store first
    (live != nullptr ? batch : at_rest).push_back(&waiting);
  }
  std::ranges::move(at_rest, std::back_inserter(batch));
  batch.resize(std::min(batch.size(), kMaxTogether));
  return batch;
}

void Telemetry::consume() {
  for (;;) {
    for (auto batch = next_batch(); !batch.empty(); batch = next_batch()) {
      take(std::move(batch));
      std::erase_if(waiting_, [](const Waiting& waiting) { return waiting.done; });
    }
    if (context_.effects.empty()) return unsettled_.clear();
    settle_stored();
  }
}

/// What follows from windows that are stored: guards act first, and routes that a stage waits for are applied
/// together.
void Telemetry::settle_stored() {
  unsettled_.clear();
  const auto acts = [](const Effect& effect) { return std::holds_alternative<ActOnGuard>(effect); };
  auto others = std::exchange(context_.effects, {});
  std::ranges::copy_if(others, std::back_inserter(context_.effects), acts);
  std::erase_if(others, acts);
  settle_();
  std::vector<std::string> names;
  for (const auto& effect : others) {
    const auto* const apply = std::get_if<ApplyRoute>(&effect);
    const auto model = apply == nullptr ? context_.models.end() : context_.models.find(apply->model);
    if (model != context_.models.end() && !model->second.agreed) names.push_back(apply->model);
  }
  if (names.size() > 1) ensure_routes_held(context_, names);
  context_.effects = std::move(others);
  settle_();
}

schema::Result<std::vector<Consumed>> Telemetry::read_consumed(const std::vector<Waiting*>& batch) {
  return context_.world.store.read([&](store::Reader& reader) -> schema::Result<std::vector<Consumed>> {
    std::vector<Consumed> consumed;
    for (const auto* waiting : batch) {
      const auto& window = waiting->window;
      auto watermark = TRY(store::window_watermark(reader, window.router_id));
      auto of_model = TRY(store::model_window(reader, window.router_id, window.model));
      consumed.push_back({watermark, of_model});
    }
    return consumed;
  });
}

void Telemetry::take(std::vector<Waiting*> batch) {
  const auto consumed = read_consumed(batch);
  if (!consumed) {
    warn_not_stored(batch.front()->window, consumed.error());
    for (const auto* waiting : batch) stuck_.insert(waiting->window.model);
    return;
  }
  std::vector<Decided> together;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    auto& waiting = *batch[i];
    const auto& before = (*consumed)[i];
    waiting.done = waiting.window.number <= std::max(before.watermark, before.of_model.value_or(0));
    if (waiting.done) {
      note_stored(waiting.window);
      continue;
    }
    if (!std::exchange(waiting.noted, true)) note_window(context_, waiting.window);
    auto change = decide_window(context_, waiting.window, before);
    if (!change) {
      stuck_.insert(waiting.window.model);
      warn_not_stored(waiting.window, change.error());
      continue;
    }
    Decided decided{&waiting, std::move(*change)};
    if (is_urgent(decided))
      commit_at_once(std::move(decided));
    else
      together.push_back(std::move(decided));
  }
  if (together.size() == 1)
    commit_alone(std::move(together.front()));
  else if (!together.empty())
    commit_together(std::move(together));
}

/// Of its router, once these are stored: below the first window that waits or was left.
std::uint64_t Telemetry::watermark(const std::string& router, const std::set<const Waiting*>& done) const {
  const auto& position = routers_.at(router);
  auto below = position.read;
  for (const auto& [model, first] : position.left) below = std::min(below, first - 1);
  for (const auto& waiting : waiting_) {
    if (waiting.window.router_id == router && !waiting.done && !done.contains(&waiting))
      below = std::min(below, waiting.window.number - 1);
  }
  return below;
}

Work Telemetry::put_watermarks(const std::set<const Waiting*>& done) const {
  std::map<std::string, std::uint64_t> numbers;
  for (const auto* waiting : done) {
    const auto& router = waiting->window.router_id;
    if (!numbers.contains(router)) numbers[router] = watermark(router, done);
  }
  return
      [numbers = std::move(numbers), now = context_.now()](store::Tx& tx, Entries&) -> schema::Result<void> {
        for (const auto& [router, number] : numbers) TRY(store::advance_watermark(tx, router, number, now));
        return {};
      };
}

/// It takes traffic from the candidate, or may: an end, a step back, slices that go elsewhere.
bool Telemetry::is_urgent(const Decided& decided) const {
  const auto& change = decided.change.change;
  if (change.ends) return true;
  const auto model = context_.models.find(decided.waiting->window.model);
  return change.route && model != context_.models.end() &&
         change.route->route.candidate_bp <= model->second.desired.candidate_bp;
}

/// And what follows from it, ahead of what follows from others.
void Telemetry::commit_at_once(Decided decided) {
  auto others = std::exchange(context_.effects, {});
  commit_alone(std::move(decided));
  settle_();
  context_.effects = std::move(others);
}

void Telemetry::commit_alone(Decided decided) {
  auto change = std::move(decided.change.change);
  change.rows.push_back(put_watermarks({decided.waiting}));
  auto* const live = context_.lookup(decided.change.promotion);
  schema::Result<void> done;
  if (live == nullptr) {
    const auto name = change.name;
    done = context_.commit_together(name, {{nullptr, std::move(change)}});
  } else {
    done = decided.change.retries ? context_.commit_or_retry(*live, std::move(change))
                                  : context_.commit_change(*live, std::move(change));
  }
  decided.change.retries = false;  // it was asked for already
  if (done)
    committed(decided);
  else
    refused(decided, done.error());
}

void Telemetry::commit_together(std::vector<Decided> decided) {
  std::vector<Context::OfPromotion> changes;
  std::set<const Waiting*> windows;
  for (auto& one : decided) {
    changes.push_back({context_.lookup(one.change.promotion), one.change.change});
    windows.insert(one.waiting);
  }
  changes.push_back({nullptr, Change{.name = {}, .rows = {put_watermarks(windows)}}});
  const auto done = context_.commit_together("telemetry windows", std::move(changes));
  if (!done && !concerns_store(done.error())) {
    // One of them cannot be stored: the others are, each by itself.
    for (auto& one : decided) commit_alone(std::move(one));
    return;
  }
  for (auto& one : decided) {
    if (done)
      committed(one);
    else
      refused(one, done.error());
  }
}

void Telemetry::committed(Decided& decided) {
  auto& waiting = *decided.waiting;
  waiting.done = true;
  note_stored(waiting.window);
  unsettled_.insert(waiting.window.model);
  ++windows_seen_;
  context_.figures.served(waiting.window);
  others_seen_.first += waiting.window.others;
  others_seen_.second += waiting.window.others_failed;
  if (decided.change.after) decided.change.after(true);
}

void Telemetry::note_stored(const route::Window& window) {
  auto& stored = routers_.at(window.router_id).stored[window.model];
  stored = std::max(stored, window.number);
}

void Telemetry::refused(Decided& decided, const schema::Error& error) {
  stuck_.insert(decided.waiting->window.model);
  warn_not_stored(decided.waiting->window, error);
  auto* const live = context_.lookup(decided.change.promotion);
  if (live != nullptr && decided.change.retries) context_.schedule_retry(*live, error);
  if (decided.change.after) decided.change.after(false);
}

void Telemetry::warn_not_stored(const route::Window& window, const schema::Error& error) {
  context_.warn(fmt::format("window {} of router {} is not stored yet: {}", window.number, window.router_id,
                            error.describe()));
}

/// Two routers may serve while one follows the other.
void Telemetry::acknowledge() {
  for (auto& [id, router] : routers_) {
    const auto stored = watermark(id, {});
    if (stored > router.acknowledged && context_.world.driver.acknowledge({id, stored}))
      router.acknowledged = stored;
    acknowledge_models(id, router);
  }
  forget_idle_routers();
}

/// What is stored above the watermark: a data plane that kept it would lose it one day, and tell of loss.
void Telemetry::acknowledge_models(const std::string& id, Router& router) {
  std::erase_if(router.stored, [&](const auto& item) { return item.second <= router.acknowledged; });
  if (router.stored.empty() || watermark(id, {}) > router.acknowledged) return;
  if (context_.world.driver.acknowledge_models(id, router.stored)) router.stored.clear();
}

/// A router that is gone sends no more: the one with which nothing was read for longest is not known here, so
/// the first that nothing waits for goes.
void Telemetry::forget_idle_routers() {
  while (routers_.size() > kMaxRouters) {
    const auto idle = std::ranges::find_if(routers_, [this](const auto& item) {
      return item.first != last_.router_id && std::ranges::none_of(waiting_, [&](const Waiting& waiting) {
               return waiting.window.router_id == item.first;
             });
    });
    if (idle == routers_.end()) return;
    routers_.erase(idle);
  }
}

}  // namespace driftgate::pipeline
