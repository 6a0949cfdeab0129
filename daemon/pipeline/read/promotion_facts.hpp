#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/pipeline/people/quorum.hpp"
#include "daemon/pipeline/read/contract_cache.hpp"
#include "daemon/pipeline/stages/progress.hpp"
#include "daemon/schedule/blackout.hpp"
#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/of_many.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/versions.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {

/// The job that a stage waits for.
struct RunningJob {
  std::string name;
  std::optional<jobs::JobProgress> progress{};  ///< nothing while it has told none
  std::string id{};
  std::optional<jobs::JobPlace> place{};  ///< nothing when no runner knows it
};

/// A stage run with what is shown of it.
struct RunFacts {
  store::StageRunRow row;
  StageProgress progress{};
  std::map<std::string, std::int64_t> counts{};  ///< of verdicts, by their names
  std::optional<RunningJob> job{};
};

/// A clause that keeps an inconclusive stage from passing.
struct Undecided {
  std::string clause, slice;
  std::string message;  ///< with its figures
  std::string advice;   ///< what would decide it
};

/// Everything that is said of a promotion in lists and sentences. Plain data: what is told of it
/// (standing.hpp, promotion_json.hpp) follows from this alone.
struct PromotionFacts {
  store::PromotionRow row;
  std::string contract_name{};
  std::shared_ptr<const schema::Contract> contract{};  ///< null: it cannot be read
  std::optional<store::VersionRow> candidate{}, baseline{};
  std::vector<RunFacts> runs{};                  ///< in the order in which they started
  std::vector<store::OpenVerdict> not_passed{};  ///< of the newest run
  Quorum quorum{};                               ///< of the step that waits for an approval
  std::vector<store::ApprovalRow> approvals{};   ///< those of it that count now
  std::vector<Undecided> undecided{};            ///< while it is inconclusive
  std::vector<OpenClause> to_waive{};            ///< what a waiver may name; none for a canary
  std::optional<store::ModelRow> model{};
  std::string holder{};        ///< while it is queued: the promotion that holds the model, or ""
  std::string blackout{};      ///< that covers the model now, or ""
  std::uint32_t share_bp = 0;  ///< of the candidate, as it was applied last

  [[nodiscard]] const RunFacts* newest() const { return runs.empty() ? nullptr : &runs.back(); }
  /// The newest run when it is a canary's, else null.
  [[nodiscard]] const RunFacts* canary() const;
};

/// What facts are gathered from beside the store. `runner` null: of no job is told how far it is. `contracts`
/// null: they are parsed anew.
struct Sources {
  jobs::JobRunner* runner = nullptr;
  std::int64_t now_us = 0;
  ContractCache* contracts = nullptr;
  std::span<const schedule::Blackout> blackouts{};
};

/// The facts of promotions, in their order. The number of statements does not depend on how many they are,
/// but for what is to be waived, which is read for each of the few that are inconclusive.
[[nodiscard]] schema::Result<std::vector<PromotionFacts>> gather(store::Reader& reader,
                                                                 std::span<const store::PromotionRow> rows,
                                                                 const Sources& sources);

}  // namespace driftgate::pipeline
