#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "schema/verdict.hpp"
#include "stages/escalation.hpp"
#include "stages/guard/answer_figure.hpp"
#include "stages/guard/e_detector.hpp"
#include "stages/guard/guard.hpp"

namespace driftgate::stages {

/// A live answer of the guarded version whose tokens the engines of both kernels have scored.
struct RescoredAnswer {
  std::uint64_t key_hash = 0;  ///< of the sticky key
  std::string slice;           ///< canonical text, "domain=code;language=de"
  bool unfiltered = false;     ///< its tokens were sampled without filters, as the request asked
  /// Of the same tokens, in nats, by the training kernel (p) and by the guarded version (q); NaN = not known.
  std::vector<double> log_p, log_q;
  std::int64_t at_us = 0;  ///< when it was scored, by the daemon's clock
};

/// Tests the contract's limits of drift on live answers after a promotion (docs/guard.md;
/// docs/design/statistics.md, "Rescored answers"): for each clause of which schema::is_rescored holds, and
/// each slice that it names, a change detector. Each sticky key has one answer a day. Slices of a single
/// value that a clause monitors are watched from their first answer on, kMostMonitored of them at most; their
/// parts of the false alarms are set aside beforehand, so that it does not matter which come. Serialised
/// state makes the same decisions as the original. Not thread-safe.
class RescoreWatch {
 public:
  static constexpr std::size_t kMostMonitored = 16;
  /// Answers of one day (UTC); more are not taken.
  static constexpr std::size_t kMostOfDay = 8'192;

  /// `share` of the guard's false alarms, more than 0. Without clauses to test it has no watches.
  /// Precondition: the contract has a guard.
  RescoreWatch(const schema::Contract& contract, double share, std::int64_t armed_us);

  /// Whether an answer of this key would be taken: none was on that day, and the day has room.
  [[nodiscard]] bool takes(std::uint64_t key_hash, std::int64_t at_us) const;
  /// Adds an answer. False if it is not taken, or none of its tokens has both log-probabilities. Error:
  /// `invalid_argument` for a log-probability above 0.
  [[nodiscard]] schema::Result<bool> observe(const RescoredAnswer& answer);
  /// As GuardState::decide.
  [[nodiscard]] GuardDecision decide();
  /// Forgets what was seen, but for the keys of the day.
  void restart(std::int64_t now_us);

  [[nodiscard]] bool alarming() const;
  [[nodiscard]] std::size_t watches() const { return watches_.size(); }
  [[nodiscard]] std::uint64_t answers() const { return answers_; }    ///< taken
  [[nodiscard]] std::uint64_t filtered() const { return filtered_; }  ///< of them sampled with filters

  [[nodiscard]] nlohmann::json to_json() const;
  /// Reads what to_json wrote. Errors: `corrupt`, `conflict` for the state of another contract, `unsupported`
  /// for that of another version of the program.
  [[nodiscard]] static schema::Result<RescoreWatch> from_json(const schema::Contract& contract,
                                                              const nlohmann::json& json);

 private:
  struct Watch {
    schema::Clause clause;
    AnswerLimit limit;
    schema::SliceWhere where;
    schema::SliceRole role = schema::SliceRole::corpus;
    double part = 0;  ///< of the guard's false alarms
    EDetector detector;
    double units = 0, sum = 0;  ///< of the clause's figure over the answers that counted
    std::int64_t newest_us = 0;
    bool alarming = false;
  };
  /// A clause that is tested, and its limit.
  struct Tested {
    schema::Clause clause;
    AnswerLimit limit;
  };

  void plan(const schema::Contract& contract, std::int64_t armed_us);
  void add_watch(const Tested& tested, schema::SliceWhere where, schema::SliceRole role, double part,
                 std::int64_t at_us);
  void watch_values(const schema::SliceWhere& attributes, std::int64_t at_us);
  [[nodiscard]] bool remember(std::uint64_t key_hash, std::int64_t at_us);
  [[nodiscard]] schema::ClauseVerdict verdict(const Watch& watch) const;
  [[nodiscard]] schema::Result<void> restore(const schema::Contract& contract, const nlohmann::json& json);

  std::string contract_digest_;
  schema::Escalation escalation_;
  schema::Assumptions assumptions_;
  std::vector<std::string> dimensions_;
  std::vector<schema::SliceWhere> critical_;
  std::int64_t mean_time_us_ = 0;
  double share_ = 0;

  std::vector<Tested> monitored_;           ///< clauses on monitored slices
  double monitored_part_ = 0;               ///< of each of their watches
  std::vector<schema::SliceWhere> values_;  ///< monitored slices that are watched
  std::vector<Watch> watches_;
  std::int64_t day_ = 0;             ///< since the epoch
  std::vector<std::uint32_t> keys_;  ///< of that day, folded
  std::uint64_t answers_ = 0, filtered_ = 0;
};

}  // namespace driftgate::stages
