#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/pipeline/requests/request.hpp"
#include "daemon/pipeline/settings.hpp"
#include "daemon/route/control/driver.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/store.hpp"
#include "schema/contract/contract.hpp"
#include "stages/abilities.hpp"

namespace driftgate::pipeline {

/// A promotion request with everything that it names, read from one snapshot of the store and found fit.
struct CheckedRequest {
  store::PromotionRow row;  ///< as it would be inserted, without id, seed and versions
  PromotionRequest request;
  std::string contract_name;
  std::shared_ptr<const schema::Contract> contract;
  store::EngineRow engine;                     ///< of the candidate
  std::optional<store::EngineRow> fallback{};  ///< see resolve_fallback
  std::vector<stages::AbilityGap> gaps{};      ///< clauses that cannot be decided; see find_ability_gaps
};

/// The contract of a digest, or the newest of a name; `not_found` about "/contract".
[[nodiscard]] schema::Result<store::ContractRow> named_contract(store::Reader& reader,
                                                                const std::string& name);
/// Whether an adapter is in the settings (`not_found`), or a path can be opened below a root
/// (rooted_path.hpp).
[[nodiscard]] schema::Result<void> check_source(const CaptureSource& source, const Settings& settings,
                                                const std::string& where);
/// `invalid_argument` about the first hard clause of the stage that needs a floor that the captures lack.
[[nodiscard]] schema::Result<void> find_missing_floor(const StageCaptures& captures,
                                                      const schema::Contract& contract, schema::Stage stage,
                                                      const std::string& where);
/// Whether the contract has a clause for the stage.
[[nodiscard]] bool demands(const schema::Contract& contract, schema::Stage stage);

/// The contract of a stored row: the only place where the pipeline parses one.
[[nodiscard]] schema::Result<std::shared_ptr<const schema::Contract>> parse_contract_row(
    const store::ContractRow& row);

/// Checks everything that a request needs. Safe from any thread.
[[nodiscard]] schema::Result<CheckedRequest> check_request(store::Store& store, const Settings& settings,
                                                           const route::Capabilities& data_plane,
                                                           const std::string& actor,
                                                           const PromotionRequest& request);
/// All that speaks against a request, in the order in which check_request looks, and then the hard clauses
/// that cannot be decided unless it accepts those. An error where something that it names is not registered,
/// or cannot be read: then nothing else was looked at.
[[nodiscard]] schema::Result<std::vector<schema::Error>> find_faults(store::Store& store,
                                                                     const Settings& settings,
                                                                     const route::Capabilities& data_plane,
                                                                     const std::string& actor,
                                                                     const PromotionRequest& request);
/// The model's row when a promotion of it may be asked for; `conflict` when it has no incumbent or is on
/// hold.
[[nodiscard]] schema::Result<store::ModelRow> promotable_model(store::Reader& reader,
                                                               const std::string& model);

}  // namespace driftgate::pipeline
