#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/figures/model_figures.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/route/control/telemetry.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::pipeline {

/// What /metrics shows of models, decisions and traffic, kept as it happens: a scrape copies it and waits
/// neither for the loop nor for the store. It begins at zero with the daemon. Safe from any thread.
class LiveFigures {
 public:
  /// An entry that was committed.
  void note(const Event& event);
  /// A decision on the model's candidate, or of its guard, that was committed; takes the place of the one
  /// before.
  void decided(std::string_view model, std::shared_ptr<const DecisionFigures> figures);
  /// A telemetry window that was stored.
  void served(const route::Window& window);
  /// Every model as it stands now, by name, and what else the loop tells.
  void stand(std::vector<ModelStanding> models, const ServiceFigures& loop, std::int64_t now_us);

  [[nodiscard]] LiveSnapshot snapshot() const;
  /// As `stand` was told last; nothing before.
  [[nodiscard]] ServiceFigures loop() const;

 private:
  ModelFigures* of(std::string_view model);
  void note_state(const schema::EntryDraft& entry);

  mutable std::mutex mutex_;
  std::map<std::string, ModelFigures, std::less<>> models_;
  LiveSnapshot counted_;  ///< without its models
  ServiceFigures loop_;
};

}  // namespace driftgate::pipeline
