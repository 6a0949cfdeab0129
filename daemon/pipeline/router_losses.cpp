#include "daemon/pipeline/router_losses.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/promotions/router_windows.hpp"

namespace driftgate::pipeline {
namespace {

using schema::EntryValue;

constexpr std::int64_t kRetryUs = 1'000'000;
constexpr std::size_t kMaxListed = 64;          ///< of each list, so that the entry keeps within its size
constexpr std::string_view kOtherModels = "*";  ///< no model can have this name

/// Requests that the router had begun, by model and arm; what is beyond the limit is added up by arm.
EntryValue::Array broken_list(const route::PageContents& page) {
  EntryValue::Array list;
  std::array<std::uint64_t, route::kPageArms> others{};
  const auto put = [&list](std::string_view model, std::size_t arm, std::uint64_t requests) {
    list.push_back(EntryValue::Object{{"model", std::string(model)},
                                      {"arm", std::string(route::to_string(static_cast<route::Served>(arm)))},
                                      {"requests", requests}});
  };
  for (const auto& model : page.models) {
    for (std::size_t arm = 0; arm < route::kPageArms; ++arm) {
      const auto requests = model.in_flight[arm];
      if (requests > 0 && list.size() < kMaxListed) {
        put(model.model, arm, requests);
      } else {
        others[arm] += requests;
      }
    }
  }
  for (std::size_t arm = 0; arm < route::kPageArms; ++arm) {
    if (others[arm] > 0) put(kOtherModels, arm, others[arm]);
  }
  return list;
}

/// Telemetry by model that was not consumed: closed windows and the open one, with the requests in them.
EntryValue::Array lost_list(const route::PageContents& page,
                            const std::map<std::string, std::uint64_t>& consumed, bool in_order) {
  EntryValue::Array list;
  std::uint64_t other_windows = 0;
  std::uint64_t other_requests = 0;
  const auto put = [&list](std::string_view model, std::uint64_t windows, std::uint64_t requests) {
    list.push_back(
        EntryValue::Object{{"model", std::string(model)}, {"windows", windows}, {"requests", requests}});
  };
  for (const auto& model : page.models) {
    const bool all_consumed = consumed.at(model.model) >= model.newest_window;
    // A router that was handed over closes its last window before it ends.
    const bool open = !in_order || model.open_requests > 0;
    const std::uint64_t windows = (all_consumed ? 0 : model.windows) + (open ? 1U : 0U);
    if (windows == 0) continue;
    const auto requests = (all_consumed ? 0 : model.kept_requests) + model.open_requests;
    if (list.size() < kMaxListed) {
      put(model.model, windows, requests);
    } else {
      other_windows += windows;
      other_requests += requests;
    }
  }
  if (other_windows > 0) put(kOtherModels, other_windows, other_requests);
  return list;
}

}  // namespace

void RouterLosses::add(route::RouterLoss loss, std::function<void()> recorded) {
  waiting_.push_back({std::move(loss), std::move(recorded)});
  next_us_ = 0;
}

void RouterLosses::record_all() {
  if (waiting_.empty() || context_.now() < next_us_) return;
  while (!waiting_.empty()) {
    const auto done = record(waiting_.front().loss);
    if (!done) {
      next_us_ = context_.now() + kRetryUs;
      return context_.warn(fmt::format("the replacement of router {} is not recorded yet: {}",
                                       waiting_.front().loss.router_id, done.error().describe()));
    }
    const auto recorded = std::move(waiting_.front().recorded);
    waiting_.erase(waiting_.begin());
    if (recorded) recorded();
  }
}

/// Broken requests count neither for nor against a candidate: the router broke those of both arms alike, and
/// more of the slower one's, whose requests are longer in flight.
schema::Result<void> RouterLosses::record(const route::RouterLoss& loss) {
  std::map<std::string, std::uint64_t> consumed;
  for (const auto& model : loss.page ? loss.page->models : std::vector<route::PageModel>{}) {
    auto newest = TRY(look_up(context_.world.store, store::model_window, loss.router_id, model.model));
    consumed[model.model] = newest.value_or(0);
  }
  schema::EntryDraft entry{.time_us = context_.now(),
                           .kind = schema::EvidenceKind::router_replaced,
                           .actor = kDaemonActor,
                           .body = {{"why", loss.why},
                                    {"reason", loss.reason},
                                    {"router", loss.router_id},
                                    {"pid", loss.pid},
                                    {"replacement", loss.replacement_id},
                                    {"replacement_pid", loss.replacement_pid},
                                    {"down_ms", loss.down_ms}}};
  if (loss.page) {
    entry.body["connections"] = loss.page->connections;
    entry.body["broken"] = broken_list(*loss.page);
    entry.body["lost"] = lost_list(*loss.page, consumed, loss.why == "handed_over");
  }
  if (loss.unread) entry.body["unread"] = *loss.unread;
  return context_.commit_rows("router replaced",
                              [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
                                if (!loss.router_id.empty()) {
                                  auto first = TRY(store::end_router(tx, loss.router_id, context_.now()));
                                  if (!first) return {};  // an earlier daemon recorded it and died
                                }
                                return add_entry(tx, entries, entry);
                              });
}

}  // namespace driftgate::pipeline
