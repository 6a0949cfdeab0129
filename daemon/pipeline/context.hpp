#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/engines/golden.hpp"
#include "daemon/jobs/job.hpp"
#include "daemon/jobs/rescoring/kept_answers.hpp"
#include "daemon/notify/outbox.hpp"
#include "daemon/pipeline/change.hpp"
#include "daemon/pipeline/clock.hpp"
#include "daemon/pipeline/committer.hpp"
#include "daemon/pipeline/effects.hpp"
#include "daemon/pipeline/figures/live_figures.hpp"
#include "daemon/pipeline/guard/live_guard.hpp"
#include "daemon/pipeline/read/promotion_facts.hpp"
#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/pipeline/state.hpp"
#include "daemon/route/control/driver.hpp"
#include "daemon/schedule/blackout.hpp"
#include "daemon/store/id.hpp"
#include "daemon/store/promotions/spending.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// Everything the pipeline touches, passed in.
struct World {
  Settings settings;
  store::Store& store;
  Committer& committer;
  route::Driver& driver;
  jobs::JobRunner& runner;
  Clock& clock;
  std::function<store::IdRandom()> random;
  std::string instance;  ///< of this process: owner of the models' locks
  std::function<void(std::string_view level, const std::string& text)> log;
  std::function<void(const Event&)> publish;
  /// Checks a request against one snapshot of what is registered; safe from any thread.
  std::function<schema::Result<CheckedRequest>(const std::string& actor, const PromotionRequest&)> check;
  /// Whether an engine's checkpoint was looked at and found to be the registered one; takes its time; safe
  /// from any thread.
  std::function<schema::Result<bool>(const store::EngineRow&)> verify;
  /// Runs `work` beside the loop, then `then` on it.
  std::function<void(std::function<void()> work, std::function<void()> then)> offload;
  /// Whether the engine at a base URL is healthy now; blocks for about a second at most.
  std::function<schema::Result<void>(const std::string& base_url)> health;
  /// As `offload`, for looks at engines: an engine that hangs holds up no evaluation.
  std::function<void(std::function<void()> work, std::function<void()> then)> look;
  /// The answer of the engine's model to a golden prompt; blocks for kGoldenTimeout at most.
  std::function<schema::Result<jobs::GoldenAnswer>(const jobs::GoldenEngine& engine,
                                                   const std::string& prompt)>
      probe;
  /// What the engine tells of itself; blocks for a few times kGoldenTimeout at most.
  std::function<schema::Result<stages::Identity>(const std::string& base_url, const std::string& model)>
      identify;
  /// The next kept answer, scored by both engines; blocks for two times kEngineTimeout at most.
  std::function<schema::Result<jobs::NextAnswer>(
      const jobs::KeptAnswers& kept, const jobs::RescoreEngine& reference, const jobs::RescoreEngine& served)>
      rescore;
  notify::Outbox outbox;  ///< webhooks that are notified of committed entries
};

/// The rollback of a promotion that had succeeded, in effect and not recorded yet.
struct UnrecordedRollback {
  std::string promotion, actor, reason;
  std::int64_t retry_at_us = 0;
  std::uint32_t failures = 0;  ///< in a row
};

/// What every part of the pipeline works with: the world outside, the promotions and models in memory, the
/// only ways to commit, and the queue of effects. Belongs to the loop's thread.
class Context {
 public:
  explicit Context(World outside) : world(std::move(outside)) {}

  [[nodiscard]] std::int64_t now() const { return world.clock.now_us(); }
  void warn(const std::string& text) const { world.log("warning", text); }
  [[nodiscard]] std::string new_id(std::string_view prefix) const;
  [[nodiscard]] std::uint64_t new_seed() const;

  /// Null when there is none, or it has ended.
  [[nodiscard]] Live* lookup(std::string_view id);
  /// The promotion that holds the model; there is at most one.
  [[nodiscard]] Live* holder(std::string_view model);
  /// `conflict` when it has ended, `not_found` when there never was one.
  [[nodiscard]] schema::Result<Live*> open_promotion(const std::string& id);
  [[nodiscard]] ModelState* model_of(const Live& live);
  [[nodiscard]] Facts facts(const Live& live);
  /// Reads a promotion with all that it names; used at a start of the daemon and after a failed COMMIT.
  [[nodiscard]] schema::Result<void> load(Live& live, const store::PromotionRow& row);
  [[nodiscard]] const schedule::Blackout* blackout_of(const std::string& model) const;
  /// What views of promotions are made from.
  [[nodiscard]] Sources sources() const;

  /// Commits rows and entries that belong to no change of a promotion.
  [[nodiscard]] schema::Result<void> commit_rows(std::string_view what, const Work& work);
  [[nodiscard]] schema::Result<void> commit_entry(std::string_view what, const schema::EntryDraft& entry);
  /// Commits a change: it is copied into memory and its effects are queued when the COMMIT succeeded. An
  /// error leaves memory as it was.
  [[nodiscard]] schema::Result<void> commit_change(Live& live, Change change);
  /// A change of a promotion; or, where that is null, rows alone.
  struct OfPromotion {
    Live* live = nullptr;
    Change change;
  };
  /// Commits changes of different promotions in one transaction, each with its evidence: all or none. None of
  /// them ends its promotion. An error leaves memory as it was.
  [[nodiscard]] schema::Result<void> commit_together(std::string_view what, std::vector<OfPromotion> changes);
  /// As commit_change; after an error the promotion is read from the store again after a while and goes on
  /// from there. The end of a promotion that has traffic does not wait for its COMMIT (commit_urgent).
  schema::Result<void> commit_or_retry(Live& live, Change change);
  /// As commit_change, for a route that is safer than the one that stands: past the patience of the settings
  /// it is applied before the COMMIT is through, and all the same when the COMMIT fails; the error says
  /// whether it is in force. When the record is refused after that, the desired route comes back.
  [[nodiscard]] schema::Result<void> commit_urgent(Live& live, Change change);

  /// What is in memory of the promotion is forgotten and read again, later each time.
  void schedule_retry(Live& live, const schema::Error& error);
  /// The data plane holds exactly this route when true.
  [[nodiscard]] schema::Result<bool> apply_and_read_back(const route::ModelRoute& route);
  /// The same without giving it.
  [[nodiscard]] schema::Result<bool> is_held(const route::ModelRoute& route);
  /// What a run of this stage spends α on: the candidate's checkpoint and kernel identity under the contract.
  [[nodiscard]] schema::Result<store::SpendingKey> spending_key(const Live& live) const;
  /// Which run of that key one on new data would be now.
  [[nodiscard]] schema::Result<std::uint32_t> next_run(const Live& live) const;
  /// Spends the α of a stage run for these inputs, or finds the run that had spent it for the same inputs.
  [[nodiscard]] schema::Result<store::SpendingRow> spend_alpha(const Live& live,
                                                               const std::string& inputs_digest);

  World world;
  std::map<std::string, ModelState, std::less<>> models;
  std::map<std::string, std::unique_ptr<Live>, std::less<>> promotions;
  std::map<std::string, EngineOutage, std::less<>> outages;               ///< by the engine's base URL
  std::map<std::string, std::unique_ptr<LiveGuard>, std::less<>> guards;  ///< armed ones, by model
  std::map<std::string, std::int64_t, std::less<>> guards_to_read;   ///< could not be read; when to try again
  std::map<std::string, UnrecordedRollback, std::less<>> rollbacks;  ///< tried again until recorded; by model
  std::deque<Effect> effects;
  std::vector<schedule::Blackout> blackouts;
  LiveFigures figures;  ///< for /metrics; it locks itself

 private:
  mutable ContractCache contracts_;  ///< as answers show them; it locks itself

  [[nodiscard]] Work with_messages(const Work& work) const;
  [[nodiscard]] schema::Result<void> write_answered(store::Tx& tx, Entries& entries, const Facts& known,
                                                    Change& change) const;
  void committed(const std::vector<Event>& events);
  schema::Error keep_safe(const Facts& facts, const route::ModelRoute& safe, const schema::Error& error);
  void take_back(const Facts& facts, const Change::Route& refused);
  void adopt(Live& live, Change&& change);
  schema::Result<void> commit_end(Live& live, Change change);
};

}  // namespace driftgate::pipeline
