#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/jobs/rescoring/kept_answers.hpp"
#include "daemon/pipeline/requests/rescoring_engines.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/guard/rescore_watch.hpp"

namespace driftgate::pipeline {

/// What a guard makes of live answers that the training kernel's engine scores again, as stored in its row.
struct GuardRescoring {
  std::optional<stages::RescoreWatch> watch;  ///< where the contract asks for it and a clause is tested
  std::string why;               ///< why no answer is scored again now; "" = they are, or will be
  std::string reference;         ///< the engine of the training kernel by which it was armed; "" = not yet
  std::uint64_t part = 0;        ///< number of the spool file
  std::string spool;             ///< its stage key at the data plane; "" = no answers are kept
  std::int64_t spool_day = 0;    ///< on which it was begun, since the epoch
  std::uint64_t offset = 0;      ///< of it, read so far
  std::int64_t day = 0;          ///< of `tokens`, since the epoch
  std::uint64_t tokens = 0;      ///< scored on that day
  std::int64_t newest_us = 0;    ///< when the newest answer was scored; 0 = none
  std::uint64_t unanswered = 0;  ///< looks in a row in which an engine did not answer
  std::string unanswered_why;
};
[[nodiscard]] std::string to_json(const GuardRescoring& rescoring);
/// "" is the state of a guard that has just been armed: `share` of its false alarms, since `armed_us`.
[[nodiscard]] schema::Result<GuardRescoring> guard_rescoring_from_json(const std::string& text,
                                                                       const schema::Contract& contract,
                                                                       double share, std::int64_t armed_us);
/// What is not stored of it.
struct RescoringLoop {
  std::optional<RescoringEngines> engines;  ///< as they were found last
  std::int64_t find_engines_us = 0;         ///< when they are looked for again
  std::int64_t next_us = 0;                 ///< of the next look
  std::int64_t refused_until_us = 0;        ///< the data plane did not take a route that keeps answers
  bool asks = false;                        ///< a look will come back
  bool full = false;                        ///< the spool file has become too large
};

/// What a look at the kept answers, beside the loop, has brought back.
struct RescoredLook {
  std::string spool;         ///< that was read
  std::uint64_t offset = 0;  ///< from there on
  schema::Result<jobs::NextAnswer> next;
};

/// The stage key of the answers that a stored state keeps; "" without any, and for text that cannot be read.
[[nodiscard]] std::string kept_answers_of(const std::string& text);

}  // namespace driftgate::pipeline
