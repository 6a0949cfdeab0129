#include "daemon/route/worker/ledger.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

namespace driftgate::route {
namespace {

// Requests are cut at their deadline by the session itself; the ledger waits a little longer so that
// the true ending wins over the assumed one.
constexpr std::chrono::seconds kDeadlineSlack{2};
constexpr std::size_t kMaxOpenStages = 8;       // of one model between two closes
constexpr std::size_t kObservationBytes = 160;  // of one observation in JSON, numbers at their longest

}  // namespace

struct Ledger::Slot {
  Observation seen;
  const std::string* model = nullptr;  ///< the key of `state`
  Model* state = nullptr;              ///< in models_, which never lets one go
  std::string stage_key;
  Time deadline;
  bool ended = false;
  bool apart = false;  ///< it outlives its deadline
  std::atomic<bool> may_outlive = false;
};

Ledger::Ledger(std::string router_id, LedgerLimits limits)
    : router_id_(std::move(router_id)), limits_(limits) {}

void Ledger::outlive(const Ticket& ticket) {
  ticket->may_outlive.store(true, std::memory_order_relaxed);
}

std::uint64_t Ledger::order_of(const Ticket& ticket) {
  return ticket ? ticket->seen.order : 0;
}

Ledger::Ticket Ledger::begin(const std::string& model, std::string stage_key, Observation seen,
                             Time deadline) {
  auto slot = std::make_shared<Slot>();
  slot->seen = std::move(seen);
  slot->stage_key = std::move(stage_key);
  slot->deadline = deadline;
  const std::lock_guard lock(mutex_);
  slot->seen.order = next_order_++;
  auto& entry = *models_.try_emplace(model).first;
  auto& state = entry.second;
  slot->model = &entry.first;
  slot->state = &state;
  if (state.pending.size() >= limits_.held_back) {
    ++state.lost;
    return nullptr;
  }
  state.pending.push_back(slot);
  count(*slot->model, state);
  return slot;
}

void Ledger::count(const std::string& model, Model& state) {
  if (page_ == nullptr) return;
  if (state.counters == nullptr) state.counters = page_->model(model);
  if (state.counters == nullptr) return;
  auto open_requests = state.pending.size() + state.apart;
  for (const auto& open : state.open) open_requests += open.window.observations.size();
  // In the memory of both processes with each store, killed or not; no order among them is promised.
  constexpr auto kOrder = std::memory_order_relaxed;
  state.counters->open_requests.store(open_requests, kOrder);
  state.counters->kept_requests.store(state.kept_observations, kOrder);
  state.counters->windows.store(static_cast<std::uint32_t>(state.kept_windows.size()), kOrder);
  state.counters->newest_window.store(state.last_number, kOrder);
}

void Ledger::finish(const Ticket& ticket, const Ending& ending, Time now) {
  if (!ticket) return;
  const std::lock_guard lock(mutex_);
  if (ticket->ended) return;
  ticket->ended = true;
  static_cast<Ending&>(ticket->seen) = ending;
  auto& state = *ticket->state;
  if (ticket->apart) {
    --state.apart;
    // Within the window that reports it: times of one model do not go back by the length of a stream.
    ticket->seen.routed_us = std::max(ticket->seen.routed_us, state.closed_us);
    emit(*ticket->model, state, *ticket);
  }
  release(*ticket->model, state, now);
}

void Ledger::release(const std::string& model, Model& state, Time now) {
  while (!state.pending.empty()) {
    auto& slot = *state.pending.front();
    if (!slot.ended) {
      if (now < slot.deadline + kDeadlineSlack) return;
      if (slot.may_outlive.load(std::memory_order_relaxed)) {
        slot.apart = true;
        ++state.apart;
        state.pending.pop_front();
        continue;
      }
      slot.ended = true;
      slot.seen.outcome = Outcome::failed;
      slot.seen.reason = "timeout";
      slot.seen.inter_token_ms = std::numeric_limits<double>::quiet_NaN();
    }
    emit(model, state, slot);
    state.pending.pop_front();
  }
}

void Ledger::emit(const std::string& model, Model& state, Slot& slot) {
  const auto bytes = kObservationBytes + slot.seen.slice.size() + slot.seen.reason.size();
  auto* open = &open_window(model, state, slot.stage_key);
  if (open->window.observations.size() >= limits_.window_observations ||
      open->bytes + bytes > limits_.window_bytes) {
    close(state, *open, slot.seen.routed_us);
    open = &open_window(model, state, slot.stage_key);
  }
  if (open->window.start_us == 0) open->window.start_us = slot.seen.routed_us;
  open->bytes += bytes;
  open->window.observations.push_back(std::move(slot.seen));
}

Ledger::OpenWindow& Ledger::open_window(const std::string& model, Model& state, std::string_view stage_key) {
  for (auto& open : state.open) {
    if (open.window.stage_key == stage_key) return open;
  }
  if (state.open.size() >= kMaxOpenStages) close(state, state.open.front(), state.closed_us);
  OpenWindow open;
  open.window.router_id = router_id_;
  open.window.model = model;
  open.window.stage_key = stage_key;
  open.window.start_us = state.closed_us;
  state.open.push_back(std::move(open));
  return state.open.back();
}

void Ledger::close(Model& state, OpenWindow& open, std::int64_t now_us) {
  auto window = std::make_shared<Window>(std::move(open.window));
  state.open.erase(state.open.begin() + (&open - state.open.data()));
  window->number = next_number_++;
  window->previous = std::exchange(state.last_number, window->number);
  if (window->start_us == 0) window->start_us = now_us;
  window->end_us = std::max(now_us, window->start_us);
  window->dropped = std::exchange(state.lost, 0);
  kept_observations_ += window->observations.size();
  state.kept_observations += window->observations.size();
  state.kept_windows.push_back(window->number);
  closed_.emplace(window->number, std::move(window));
  bound_closed(state);
}

void Ledger::bound_closed(Model& newest) {
  const auto drop_of_most = [this](auto kept) {
    drop_oldest(
        std::ranges::max_element(models_, {}, [&](const auto& item) { return kept(item.second); })->second);
  };
  while (newest.kept_windows.size() > limits_.windows) drop_oldest(newest);
  while (closed_.size() > limits_.all_windows)
    drop_of_most([](const Model& state) { return state.kept_windows.size(); });
  while (kept_observations_ > limits_.kept_observations && closed_.size() > 1)
    drop_of_most([](const Model& state) { return state.kept_observations; });
}

void Ledger::drop_oldest(Model& of) {
  const auto window = forget(of);
  of.lost += window->observations.size() + window->dropped;
}

/// Its oldest window.
std::shared_ptr<const Window> Ledger::forget(Model& of) {
  const auto found = closed_.find(of.kept_windows.front());
  auto forgotten = std::move(found->second);
  const auto observations = forgotten->observations.size();
  kept_observations_ -= observations;
  of.kept_observations -= observations;
  of.kept_windows.pop_front();
  closed_.erase(found);
  return forgotten;
}

void Ledger::count_mirror(std::string_view model, std::string_view stage_key, MirrorEnd end) {
  const std::lock_guard lock(mutex_);
  const std::string name(model);
  auto& window = open_window(name, models_[name], stage_key).window;
  switch (end) {
    case MirrorEnd::failed:
      ++window.mirror_failed;
      [[fallthrough]];
    case MirrorEnd::written:
      ++window.mirrored;
      return;
    case MirrorEnd::skipped:
      ++window.mirror_skipped;
      return;
  }
}

void Ledger::count_other(const std::string& model, std::string_view stage_key, bool failed) {
  const std::lock_guard lock(mutex_);
  auto& window = open_window(model, models_[model], stage_key).window;
  ++window.others;
  if (failed) ++window.others_failed;
}

void Ledger::count_lost(const std::string& model, std::uint64_t requests) {
  const std::lock_guard lock(mutex_);
  models_[model].lost += requests;
}

void Ledger::close_windows(const std::vector<std::pair<std::string, std::string>>& routed,
                           std::int64_t now_us, Time now) {
  const std::lock_guard lock(mutex_);
  // A model at rest has a window only where it had requests: hundreds of empty ones would say no more than
  // one.
  for (const auto& [model, stage_key] : routed) {
    auto& state = models_[model];
    if (!stage_key.empty()) open_window(model, state, stage_key);
  }
  for (auto& [model, state] : models_) release(model, state, now);
  const bool none = std::ranges::all_of(models_, [](const auto& item) { return item.second.open.empty(); });
  if (none && !routed.empty()) {
    const auto& [model, stage_key] = routed.front();
    open_window(model, models_[model], stage_key);
  }
  for (auto& [model, state] : models_) {
    while (!state.open.empty()) close(state, state.open.front(), now_us);
    state.closed_us = now_us;
    count(model, state);
  }
}

std::vector<std::shared_ptr<const Window>> Ledger::windows(std::uint64_t after, std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Window>> found;
  for (auto at = closed_.upper_bound(after); at != closed_.end() && found.size() < limit; ++at)
    found.push_back(at->second);
  return found;
}

void Ledger::acknowledge(std::uint64_t number) {
  std::vector<std::shared_ptr<const Window>> done;  // freed when the lock is: every request takes it
  const std::lock_guard lock(mutex_);
  if (number >= next_number_) return;
  while (!closed_.empty() && closed_.begin()->first <= number) {
    auto& [model, state] = *models_.find(closed_.begin()->second->model);
    done.push_back(forget(state));
    count(model, state);
  }
  acknowledged_.notify_all();
}

void Ledger::acknowledge(std::string_view model, std::uint64_t number) {
  std::vector<std::shared_ptr<const Window>> done;  // as above
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  if (number >= next_number_ || found == models_.end()) return;
  auto& state = found->second;
  while (!state.kept_windows.empty() && state.kept_windows.front() <= number) done.push_back(forget(state));
  if (!done.empty()) count(found->first, state);
  acknowledged_.notify_all();
}

bool Ledger::wait_until_delivered(Time deadline) {
  const auto is_delivered = [](const auto& item) {
    const auto& state = item.second;
    return state.pending.empty() && state.apart == 0 && state.open.empty();
  };
  std::unique_lock lock(mutex_);
  return acknowledged_.wait_until(
      lock, deadline, [&] { return closed_.empty() && std::ranges::all_of(models_, is_delivered); });
}

}  // namespace driftgate::route
