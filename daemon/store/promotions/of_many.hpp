#pragma once

#include <span>
#include <string>
#include <vector>

#include "daemon/store/jobs.hpp"
#include "daemon/store/promotions/approvals.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/routes.hpp"
#include "daemon/store/registry/versions.hpp"
#include "daemon/store/sqlite/sql.hpp"

// What belongs to several promotions or models, each by one statement: a page of a list costs as many
// statements as one promotion. What is not stored is left out.
namespace driftgate::store {

/// The keys as one parameter of a statement: a JSON array.
[[nodiscard]] std::string key_list(std::span<const std::string> keys);

/// In the order in which they started.
Result<std::vector<StageRunRow>> stage_runs_of(Reader& reader, std::span<const std::string> promotions);

/// How many verdicts of a kind a stage run has.
struct VerdictCount {
  StageKey stage{};
  std::string verdict{};
  std::int64_t count = 0;
  bool operator==(const VerdictCount&) const = default;
};
Result<std::vector<VerdictCount>> verdict_counts_of(Reader& reader, std::span<const std::string> promotions);

/// A verdict other than pass, without its details.
struct OpenVerdict {
  StageKey stage{};
  std::string clause{}, slice{}, verdict{};
  bool operator==(const OpenVerdict&) const = default;
};
/// By promotion, stage, attempt, clause and slice.
Result<std::vector<OpenVerdict>> open_verdicts_of(Reader& reader, std::span<const std::string> promotions);
/// The inconclusive ones with their details, in the same order.
Result<std::vector<VerdictRow>> undecided_of(Reader& reader, std::span<const std::string> promotions);

Result<std::vector<JobRow>> running_jobs_of(Reader& reader, std::span<const std::string> promotions);
Result<std::vector<ApprovalRow>> approvals_of(Reader& reader, std::span<const std::string> promotions);
Result<std::vector<VersionRow>> versions_of(Reader& reader, std::span<const std::string> ids);
Result<std::vector<ContractRow>> contracts_of(Reader& reader, std::span<const std::string> digests);

Result<std::vector<ModelRow>> models_of(Reader& reader, std::span<const std::string> models);
Result<std::vector<RouteRow>> desired_routes_of(Reader& reader, std::span<const std::string> models);
Result<std::vector<RouteRow>> applied_routes_of(Reader& reader, std::span<const std::string> models);

/// Which promotion holds a model.
struct Holder {
  std::string model{}, promotion{};
  bool operator==(const Holder&) const = default;
};
Result<std::vector<Holder>> holders_of(Reader& reader, std::span<const std::string> models);

}  // namespace driftgate::store
