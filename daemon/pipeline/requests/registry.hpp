#pragma once

#include <string>
#include <string_view>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/manifest.hpp"
#include "daemon/pipeline/clock.hpp"
#include "daemon/pipeline/committer.hpp"
#include "daemon/pipeline/requests/request.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/pipeline/settings.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// Registers contracts, kernels and engines: each in one transaction with its entry. Runs on the caller's
/// thread, since probing an engine and hashing a checkpoint take their time.
class Registry {
 public:
  Registry(const Settings& settings, store::Store& store, Committer& committer, Clock& clock,
           std::function<void(const Event&)> publish, std::function<std::string()> router_mark)
      : settings_(settings),
        store_(store),
        committer_(committer),
        clock_(clock),
        publish_(std::move(publish)),
        router_mark_(std::move(router_mark)) {}

  schema::Result<View> contract(const std::string& actor, std::string_view text, const std::string& name);
  schema::Result<View> kernel(const std::string& actor, std::string_view json);
  schema::Result<View> engine(const std::string& actor, const EngineRequest& request);
  /// Whether the files of an engine's checkpoint were looked at: each is hashed again when it is not the one
  /// that was hashed before. False when its folder cannot be read here; `conflict` when the files are no
  /// longer those that were registered.
  schema::Result<bool> verify_checkpoint(const store::EngineRow& engine);

 private:
  /// The view with `created`, false where the transaction found the row stored already.
  schema::Result<View> commit_new(std::string_view what, const Work& work, const std::function<View()>& view);
  template <typename Row>
  schema::Result<View> put_document(std::string_view what, schema::EvidenceKind kind,
                                    schema::EvidenceSubject subject, Row row,
                                    schema::Result<bool> (*insert)(store::Tx&, const Row&),
                                    View (*view_of)(const Row&));
  schema::Result<jobs::Manifest> manifest_of(const std::string& uri);
  schema::Result<std::string> checkpoint_of(const EngineRequest& request);
  schema::Result<store::EngineAccessRow> access_of(const EngineRequest& request, const std::string& base_url);
  schema::Result<store::EngineRow> probe(const EngineRequest& request, const jobs::EngineAddress& at);
  schema::EntryDraft draft(schema::EvidenceKind kind, const std::string& actor,
                           schema::EntryValue::Object body) const;

  const Settings& settings_;
  store::Store& store_;
  Committer& committer_;
  Clock& clock_;
  std::function<void(const Event&)> publish_;
  std::function<std::string()> router_mark_;  ///< Parts::router_mark; may be null
};

}  // namespace driftgate::pipeline
