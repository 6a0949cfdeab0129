#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::stages {

/// What an engine was seen to do when it was registered, as far as clauses depend on it.
struct EngineCan {
  std::string engine;          ///< its name, for messages
  bool completions = false;    ///< answers /v1/completions
  bool chat = false;           ///< answers /v1/chat/completions
  bool logprobs = false;       ///< gives log-probabilities of the tokens of completions
  bool chat_logprobs = false;  ///< and of chat completions
  bool scores_given = false;   ///< gives log-probabilities of tokens that it is given
  bool streams = false;        ///< answers by server-sent events
};

/// An engine with every ability, where nothing is known of one.
[[nodiscard]] EngineCan able_engine();

/// A clause that cannot be decided in a stage because an engine lacks an ability.
struct AbilityGap {
  schema::Stage stage = schema::Stage::shadow_runtime;
  std::string clause;  ///< its address in the contract
  schema::Severity severity = schema::Severity::hard;
  std::string engine;   ///< which engine
  std::string message;  ///< one sentence: what the clause needs and what the engine lacks
};

/// The gaps of a promotion from `incumbent` to `candidate` under the contract, in its clauses' order: known
/// before any stage runs, so that none of them fails for it after hours. Clauses of offline-numeric and
/// statistical-slice are decided on captures and need no engine.
///   metrics of target tokens, shadow-runtime   both score given tokens
///   observability.coverage, shadow-runtime     both score given tokens, or give log-probabilities of what
///                                              they generate in an endpoint that both have
///   metrics of greedy answers, shadow-runtime  both give log-probabilities of what they generate in an
///                                              endpoint that both have
///   ttft, inter-token latency                  the candidate streams; the incumbent too for a relative limit
[[nodiscard]] std::vector<AbilityGap> ability_gaps(const schema::Contract& contract,
                                                   const EngineCan& incumbent, const EngineCan& candidate);

/// Why a guard with `rescoring` could score no answer of this engine again, in one sentence; std::nullopt
/// where it can, or the contract asks for none.
[[nodiscard]] std::optional<std::string> rescoring_gap(const schema::Contract& contract,
                                                       const EngineCan& candidate);

}  // namespace driftgate::stages
