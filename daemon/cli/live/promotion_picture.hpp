#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/live/line.hpp"

namespace driftgate::cli::live {

// What the live screen shows of a promotion, taken from the daemon's answers. All text is safe to show.

/// One of the stages, in the order of the pipeline.
struct StageChip {
  std::string name;    ///< "shadow-runtime"
  std::string word;    ///< "pass", "violated", "running", "waiting", "not reached" …
  std::string detail;  ///< how far it is, "42%"; or ""
  Style style = Style::plain;
};

/// The canary's ramp.
struct Ramp {
  std::int64_t share_bp = 0;            ///< the candidate's share, in basis points
  std::int64_t step = 0, steps = 0;     ///< from 1; 0 when not known
  std::string phase;                    ///< "ramping", "bake" …
  bool frozen = false;                  ///< telemetry is too old
  std::int64_t requests = 0, keys = 0;  ///< exposed to the candidate
  std::int64_t failures = 0, incumbent_failures = 0;
  std::vector<std::int64_t> planned_bp;  ///< shares of all steps, where the daemon tells them
};

/// One clause on one slice: where it stands.
struct ClauseFigure {
  std::string clause, slice;  ///< slice "" for all requests
  std::string word;           ///< "violated", "error", "inconclusive", "undecided", "pass"
  bool soft = false;          ///< does not block
  std::string message;        ///< of a verdict
  std::string limit;          ///< "≤ 0.05"; "" when not known
  std::optional<double> estimate;
  /// e-values against harm and for the limit's being kept, with the levels that decide.
  std::optional<double> harm, harm_needed, proof, proof_needed;

  [[nodiscard]] bool is_open() const { return word != "pass"; }
};

/// What people can do to make it go on, and what to type.
struct Need {
  std::string text;
  std::vector<std::string> command;  ///< the words, bound to the evidence that is shown
  std::vector<std::string> brief;    ///< the same without the digest, for narrow screens
};

struct PromotionPicture {
  std::string id, model, state, stage, contract_name, contract, requester, traffic, reason;
  std::string incumbent, incumbent_kernel, candidate, candidate_kernel;
  std::int64_t attempt = 0;
  std::int64_t created_us = 0, ended_us = 0;  ///< ended_us 0: it has not
  std::vector<StageChip> stages;
  std::optional<Ramp> ramp;
  std::vector<ClauseFigure> clauses;  ///< what fails first, then what is nearest to its level, passes last
  std::vector<std::string> waits;     ///< why it stands where it stands: sentences
  std::string next;                   ///< what comes next and when; "" when not known
  std::vector<Need> needs;

  [[nodiscard]] bool ended() const { return ended_us > 0; }
};

/// Of a promotion's view and its series (null when there is none). Absent or ill-typed members count as not
/// said.
[[nodiscard]] PromotionPicture picture_of(const nlohmann::json& promotion, const nlohmann::json& series);

/// A member as safe text for people.
[[nodiscard]] std::string shown(const nlohmann::json& object, const char* member);

/// How a state is called on a screen, and in which colour.
[[nodiscard]] std::string state_words(const std::string& state);
[[nodiscard]] Style style_of_state(const std::string& state);
/// The same of a verdict, or of where a stage stands.
[[nodiscard]] Style style_of_word(const std::string& word);

/// "2.5%" of basis points.
[[nodiscard]] std::string share_words(std::int64_t share_bp);

}  // namespace driftgate::cli::live
