#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/rescoring/kept_answers.hpp"
#include "daemon/notify/outbox.hpp"
#include "daemon/pipeline/pipeline.hpp"
#include "tests/daemon/pipeline/fakes.hpp"

namespace driftgate::pipeline::fakes {

/// How the measured kernels and the candidate behave in a walk.
struct Behaviour {
  double numeric_tv = 0.01;                       ///< of every sequence of the numeric corpus
  double numeric_spread = 0;                      ///< added to and taken from every other sequence's
  double german_tv = 0.01;                        ///< of the German sequences of the slice corpus
  double shadow_failures = 0;                     ///< share of mirrored requests that the candidate fails
  std::uint64_t fails_after = ~std::uint64_t{0};  ///< requests that the candidate serves well in the canary
  bool only_german = false;                       ///< only German requests fail in the canary
  std::string capture_error;                      ///< error message of drift jobs; "" = they succeed
  std::string measured_kernel = "k-inf";          ///< that the inf captures of the numeric table state
};

/// A capture of one row with these metadata.
void write_capture(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                   std::uint64_t vocabulary = 4);

/// A pipeline over a real store in a temporary folder and fakes of the rest. `restart` is a kill: nothing is
/// told.
class Harness {
 public:
  Harness();
  ~Harness();
  /// Opens the store and starts a pipeline over what is there.
  void boot();
  void kill();
  void restart();

  /// Contract, kernels, engines "old" and "new", model "m" served by "old".
  void set_up();
  void add_engine(const std::string& name, const std::string& kernel, int port,
                  std::int64_t max_requests_per_second = 0, const std::string& weights = "weights");
  /// What registration finds of engines that are added from now on: every ability.
  jobs::EngineAbilities abilities;
  [[nodiscard]] PromotionRequest request_for(const std::string& engine = "new") const;
  /// A promotion of `engine` asked for by "pia".
  std::string request(const std::string& engine = "new");
  /// One second: traffic, telemetry, jobs.
  void second();
  /// Seconds until the promotion is in `state`, approving when `approve`; the state that it is in then.
  std::string run_until(const std::string& promotion, const std::vector<std::string>& states,
                        bool approve = true);
  void approve_if_asked(const std::string& promotion);

  [[nodiscard]] nlohmann::json view(const std::string& promotion) const;
  [[nodiscard]] nlohmann::json model() const;
  [[nodiscard]] std::string state(const std::string& promotion) const;
  /// "kind" of every entry about the promotion, or "from>to/stage" for state changes only.
  [[nodiscard]] std::vector<std::string> kinds(const std::string& promotion) const;
  [[nodiscard]] std::vector<std::string> states(const std::string& promotion) const;
  /// The entries of one kind about the promotion; of the whole log without one.
  [[nodiscard]] std::vector<nlohmann::json> entries(const std::string& promotion,
                                                    const std::string& kind) const;
  /// Verdicts as "stage clause slice verdict" in the order of their entries, without repetitions.
  [[nodiscard]] std::vector<std::string> verdicts(const std::string& promotion) const;

  std::filesystem::path folder;
  FakeClock clock;
  FakeDriver driver;
  FakeRunner runner;
  Behaviour behaviour;
  Settings settings;
  std::string contract;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<FaultyCommitter> committer;
  std::unique_ptr<Pipeline> pipeline;
  std::int64_t fail_commit = -1;
  OnStep on_commit;  ///< of the committer that `boot` makes
  std::uint64_t ids = 0;
  std::string fallback_engine;         ///< of requests
  std::vector<std::string> unhealthy;  ///< base URLs whose health probe fails
  std::vector<std::string> probed;     ///< base URLs whose health was asked
  /// Answers to golden prompts and what engines tell of themselves, by base URL; engines without one do not
  /// answer.
  std::function<schema::Result<jobs::GoldenAnswer>(const std::string& url, const std::string& prompt)>
      answers;
  std::map<std::string, stages::Identity> identities;
  std::vector<std::string> asked;  ///< base URLs that a golden prompt was put to
  /// The next kept answer, as both engines score it; without it none is kept.
  std::function<schema::Result<jobs::NextAnswer>(
      const jobs::KeptAnswers& kept, const jobs::RescoreEngine& reference, const jobs::RescoreEngine& served)>
      rescores;
  std::vector<notify::Subscriber> webhooks;
  std::vector<std::string> warnings;

 private:
  jobs::JobResult job(const jobs::JobSpec& spec, const std::string& job_folder) const;
};

}  // namespace driftgate::pipeline::fakes
