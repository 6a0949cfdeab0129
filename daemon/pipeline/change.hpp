#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/committer.hpp"
#include "daemon/pipeline/effects.hpp"
#include "daemon/pipeline/figures/model_figures.hpp"
#include "daemon/pipeline/state.hpp"
#include "daemon/store/promotions/guards.hpp"
#include "schema/evidence/evidence_entry.hpp"
#include "stages/escalation.hpp"

namespace driftgate::pipeline {

/// The unit of work: what one event changes about one promotion. It is computed without side effects, written
/// in one transaction with its evidence, copied into memory when the COMMIT succeeded, and only then its
/// effects are queued. What is not set stays as it is. Members are written in the order in which they stand
/// here.
struct Change {
  struct Route {
    route::ModelRoute route;
    std::string reason;
    bool of_stage = true;  ///< its entry names the stage
  };
  struct Block {
    std::string id;
    stages::EscalationDecision order;
  };
  struct Guard {
    store::GuardRow row;
    schema::EntryDraft armed;  ///< its entry
    std::int64_t hour = 0;     ///< of the keys that it begins with
    std::string keys;
  };

  std::string name{};   ///< of the transaction
  std::string actor{};  ///< of its state and hold entries; "" = the daemon

  std::vector<Work> rows{};                   ///< rows of other tables, with the entries that belong to them
  std::vector<schema::EntryDraft> orders{};   ///< entries ahead of the verdicts
  std::optional<StageConclusion> verdicts{};  ///< its entries, rows and blobs
  std::vector<schema::EntryDraft> entries{};  ///< entries after the verdicts
  std::optional<Block> block{};               ///< of the candidate under the contract
  std::optional<StageProgress> progress{};    ///< of the run; replaces what `run` says of it
  std::optional<store::StageRunRow> run{};    ///< the run that is going on
  std::optional<std::string> canary{};        ///< the memory of the canary's tests, written with the run
  std::optional<store::StageRunRow> next{};   ///< the run that begins
  std::optional<Route> route{};               ///< desired from now on; applied after the COMMIT
  std::optional<std::string> incumbent{};     ///< version id; ends the model's guard
  std::optional<Guard> guard{};               ///< of the incumbent, after the one before has ended
  std::optional<std::string> hold{};          ///< set on the model, for this reason
  std::optional<store::PromotionRow> row{};
  bool state_entry = true;  ///< false: `row` is no change of state, its entry is the last one before it

  std::shared_ptr<const DecisionFigures>
      figures{};  ///< of a decision without verdicts of its own; for /metrics
  /// A person's request is answered with the promotion as it is after this change: a repetition of it under
  /// the same Idempotency-Key gets that answer.
  bool answers = false;
  std::vector<Effect> effects{};
  std::vector<std::string>
      left_jobs{};  ///< keys of jobs that the end of `run` cancelled; the store fills it in
  /// It ends the promotion, or begins to: a failed COMMIT leaves the data plane at the safe route that it
  /// wanted.
  bool ends = false;
  /// Set for an end that follows from nothing stored: requested again when the COMMIT failed.
  std::shared_ptr<const Withdrawal> wanted_end{};

  [[nodiscard]] bool is_empty() const;
};

/// A store that could not commit one change cannot commit another one now.
[[nodiscard]] bool concerns_store(const schema::Error& error);

/// An entry about a promotion as it is now; no actor is the daemon.
[[nodiscard]] schema::EntryDraft draft(const Facts& facts, schema::EvidenceKind kind, std::string_view actor,
                                       schema::EntryValue::Object body);

/// Writes all of a change in the caller's transaction. What the store fills in (revisions, sequence numbers)
/// is put into `change`, so that it can be copied into memory.
[[nodiscard]] schema::Result<void> write_change(store::Tx& tx, Entries& entries, const Facts& facts,
                                                Change& change);
/// Copies a change that was committed into memory.
void copy_back(Change&& change, Live& live, ModelState* model);

/// A desired route with its entry. `subject` is the promotion or the model that it is about.
[[nodiscard]] schema::Result<void> put_route(store::Tx& tx, Entries& entries,
                                             const schema::EvidenceSubject& subject,
                                             const route::ModelRoute& route, std::string_view reason,
                                             std::int64_t now_us);
/// Blobs, one entry and one row for each verdict, and one entry for the stage as a whole. Bytes above the
/// blob limit are named by digest only.
[[nodiscard]] schema::Result<void> put_verdicts(store::Tx& tx, Entries& entries, const Facts& facts,
                                                const StageConclusion& conclusion);
/// `block` in people/blocks.cpp: the candidate's checkpoint and kernel may not be promoted again under the
/// contract.
[[nodiscard]] schema::Result<void> put_block(store::Tx& tx, Entries& entries, const Facts& facts,
                                             const Change::Block& block);
/// Entry without more to it.
[[nodiscard]] schema::Result<void> add_entry(store::Tx& tx, Entries& entries,
                                             const schema::EntryDraft& entry);

}  // namespace driftgate::pipeline
