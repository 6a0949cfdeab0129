#pragma once

#include <functional>
#include <string>

#include "daemon/pipeline/read/promotion_facts.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/store/promotions/blocks.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

// Resources as the JSON that service.hpp describes, read in the caller's transaction.

[[nodiscard]] View contract_view(const store::ContractRow& row);
[[nodiscard]] View kernel_view(const store::KernelRow& row);
/// Of the files in `access` only the paths are shown; `files_dir` is Settings::engine_files.
[[nodiscard]] View engine_view(const store::EngineRow& row, const store::EngineAccessRow& access,
                               const std::string& files_dir);
[[nodiscard]] schema::Result<View> stored_engine_view(store::Reader& reader, const store::EngineRow& row,
                                                      const std::string& files_dir);
[[nodiscard]] schema::Result<View> named_engine_view(store::Reader& reader, const std::string& name,
                                                     const std::string& files_dir);
[[nodiscard]] View block_view(const store::BlockRow& row);
[[nodiscard]] schema::Result<View> model_view(store::Reader& reader, const store::ModelRow& row);
[[nodiscard]] schema::Result<View> named_model_view(store::Reader& reader, const std::string& name);
/// The item of a list with the sentences of every verdict that did not pass.
[[nodiscard]] schema::Result<View> view_of_facts(store::Reader& reader, const PromotionFacts& facts);
[[nodiscard]] schema::Result<View> promotion_view(store::Reader& reader, const store::PromotionRow& row,
                                                  const Sources& sources);
/// Tells the request that `tx` is run for what it made, so that its answer commits with it
/// (store/write_scope.hpp). `view` is called only where an answer is wanted; where it fails the answer is the
/// id alone, since a person's action does not depend on how it is shown.
[[nodiscard]] schema::Result<void> note_made(store::Tx& tx, const std::string& id,
                                             const std::function<schema::Result<View>()>& view);
/// The newest attempt's report of a stage; `not_found` while there is none.
[[nodiscard]] schema::Result<View> report_view(store::Reader& reader, const std::string& promotion,
                                               const std::string& stage);

}  // namespace driftgate::pipeline
