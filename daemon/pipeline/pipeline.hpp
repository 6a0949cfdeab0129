#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/engines/golden.hpp"
#include "daemon/jobs/job.hpp"
#include "daemon/jobs/rescoring/kept_answers.hpp"
#include "daemon/notify/outbox.hpp"
#include "daemon/pipeline/clock.hpp"
#include "daemon/pipeline/committer.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/pipeline/settings.hpp"
#include "daemon/route/control/driver.hpp"
#include "daemon/route/control/router_loss.hpp"
#include "daemon/store/id.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// What the composition root gives the pipeline. References outlive it.
struct Parts {
  Settings settings;
  store::Store& store;
  route::Driver& driver;
  jobs::JobRunner& runner;
  std::string instance;  ///< random for each start of the daemon
  /// "info" or "warning", and one line; may be called from the pipeline's threads.
  std::function<void(std::string_view level, const std::string& text)> log;
  // Replaced in tests; what is null is the real thing.
  Clock* clock = nullptr;
  Committer* committer = nullptr;
  std::function<store::IdRandom()> random;
  bool threaded = true;  ///< false: nothing runs by itself, `tick` is called
  std::function<schema::Result<void>(const std::string& base_url)> health{};  ///< of an engine
  /// The answer of an engine's model to a golden prompt, and what the engine tells of itself.
  std::function<schema::Result<jobs::GoldenAnswer>(const jobs::GoldenEngine& engine,
                                                   const std::string& prompt)>
      probe{};
  std::function<schema::Result<stages::Identity>(const std::string& base_url, const std::string& model)>
      identify{};
  /// The next of the answers that the data plane keeps, scored by both engines.
  std::function<schema::Result<jobs::NextAnswer>(
      const jobs::KeptAnswers& kept, const jobs::RescoreEngine& reference, const jobs::RescoreEngine& served)>
      rescore{};
  notify::Outbox outbox{};  ///< empty: nobody is notified
  /// How the data plane names itself in Via now, so that no engine is registered that leads back to it.
  std::function<std::string()> router_mark{};
};

/// The pipeline with its thread. start() reconciles with what is stored and held by the data plane, then
/// runs; stop() ends at a transaction's border and leaves jobs and routes as they are.
class Pipeline : public Service {
 public:
  [[nodiscard]] static std::unique_ptr<Pipeline> create(Parts parts);
  virtual schema::Result<void> start() = 0;
  virtual void stop() = 0;
  /// Another router took the place of one: records what went with it (once for each router), then gives the
  /// new one the routes. `recorded` is called when that is committed. Returns at once.
  virtual void router_replaced(route::RouterLoss loss, std::function<void()> recorded) = 0;
  /// One round of timers, telemetry and retries; it has ended when this returns. A pipeline with a thread
  /// also ticks by itself.
  virtual void tick() = 0;
  /// ServiceFigures::unrecorded without the other figures, which are read from the store. Safe from any
  /// thread.
  virtual std::vector<std::string> unrecorded_withdrawals() = 0;
  /// What promotions by a recipe would lack now, or the error of one that can never do; nothing is made
  /// (requests/recipe_check.hpp). Safe from any thread.
  virtual schema::Result<std::vector<std::string>> try_recipe(const std::string& document) = 0;
  /// Why a request would not be accepted now, or the error of one that never can be; nothing is made
  /// (requests/schedule_trial.hpp). Safe from any thread.
  virtual schema::Result<std::vector<std::string>> try_request(const std::string& actor,
                                                               const PromotionRequest& request) = 0;
};

}  // namespace driftgate::pipeline
