#include "daemon/pipeline/telemetry.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/store/promotions/router_windows.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::size_t kWindowsPerRead = 1'024;
constexpr std::size_t kMaxWaiting = 512;                  // beyond it the data plane keeps them
constexpr std::size_t kMaxWaitingObservations = 262'144;  // the same
constexpr std::size_t kMaxTogether = 128;                 // in one transaction
constexpr std::size_t kMaxRouters = 16;                   // whose positions are remembered

/// A store that cannot write now refuses each window by itself as well.
bool concerns_all(const schema::Error& error) {
  using schema::ErrorCode;
  return error.code == ErrorCode::storage_full || error.code == ErrorCode::io ||
         error.code == ErrorCode::unavailable || error.code == ErrorCode::deadline_exceeded;
}

}  // namespace

void Telemetry::read() {
  stuck_.clear();
  for (bool more = true; more;) {
    more = fetch();
    consume();
    acknowledge();
  }
}

/// True when there may be more to read.
bool Telemetry::fetch() {
  std::size_t observations = 0;
  for (const auto& waiting : waiting_) observations += waiting.window.observations.size();
  if (waiting_.size() >= kMaxWaiting || observations >= kMaxWaitingObservations) return false;
  auto windows = context_.world.driver.windows(last_, kWindowsPerRead);
  if (!windows) {
    context_.warn(fmt::format("telemetry cannot be read: {}", windows.error().describe()));
    return false;
  }
  bool more = false;
  for (auto& window : *windows) {
    last_ = {window.router_id, window.number};
    auto& read = routers_[window.router_id].read;
    // One router follows another: what is not acknowledged comes again.
    if (window.number <= read) continue;
    read = window.number;
    waiting_.push_back({std::move(window)});
    more = true;
  }
  return more;
}

/// The first window of each model that can go on now.
std::vector<Telemetry::Waiting*> Telemetry::next_batch() {
  std::vector<Waiting*> batch;
  std::set<std::string_view> models(stuck_.begin(), stuck_.end());
  for (auto& waiting : waiting_) {
    if (batch.size() >= kMaxTogether) break;
    if (!models.insert(waiting.window.model).second) continue;
    const auto* const live = stage_of(context_, waiting.window);
    if (live != nullptr && live->retry_at_us != 0) continue;  // it is being read from the store first
    batch.push_back(&waiting);
  }
  return batch;
}

void Telemetry::consume() {
  for (auto batch = next_batch(); !batch.empty(); batch = next_batch()) {
    take(std::move(batch));
    std::erase_if(waiting_, [](const Waiting& waiting) { return waiting.done; });
  }
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
    if (waiting.done) continue;
    if (!std::exchange(waiting.noted, true)) note_window(context_, waiting.window);
    auto decided = decide_window(context_, waiting.window, before);
    if (!decided) {
      stuck_.insert(waiting.window.model);
      warn_not_stored(waiting.window, decided.error());
      settle_();
    } else if (decided->change.ends) {
      commit_alone({&waiting, std::move(*decided)});
    } else {
      together.push_back({&waiting, std::move(*decided)});
    }
  }
  if (together.size() == 1)
    commit_alone(std::move(together.front()));
  else if (!together.empty())
    commit_together(std::move(together));
}

/// Of its router, once these are stored: below the first window that waits.
std::uint64_t Telemetry::watermark(const std::string& router, const std::set<const Waiting*>& done) const {
  const auto first = std::ranges::find_if(waiting_, [&](const Waiting& waiting) {
    return waiting.window.router_id == router && !waiting.done && !done.contains(&waiting);
  });
  return first == waiting_.end() ? routers_.at(router).read : first->window.number - 1;
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
  settle_();
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
  if (!done && !concerns_all(done.error())) {
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
  settle_();
}

void Telemetry::committed(Decided& decided) {
  auto& waiting = *decided.waiting;
  waiting.done = true;
  ++windows_seen_;
  others_seen_.first += waiting.window.others;
  others_seen_.second += waiting.window.others_failed;
  if (decided.change.after) decided.change.after(true);
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
    if (stored <= router.acknowledged) continue;
    if (context_.world.driver.acknowledge({id, stored})) router.acknowledged = stored;
  }
  // A router that is gone sends no more: the one with which nothing was read for longest is not known here,
  // so the first that nothing waits for goes.
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
