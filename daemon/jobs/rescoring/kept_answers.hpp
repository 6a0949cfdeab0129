#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/rescoring/score_answer.hpp"
#include "daemon/net/outgoing.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// An engine that scores answers.
struct RescoreEngine {
  std::string name;
  std::string base_url;
  std::string model;                ///< the id that it is asked for
  Scoring scoring = Scoring::none;  ///< how it scores given tokens; `none`: it cannot
  bool token_ids = false;           ///< it takes prompts as token ids
  base::EngineAccess access{};      ///< what it asks for
};

/// The answers that the data plane has kept, and how far they were read.
struct KeptAnswers {
  std::string path;          ///< of the spool file
  std::uint64_t offset = 0;  ///< in bytes
  /// Whether an answer of the sticky key with this hash is wanted.
  std::function<bool(std::uint64_t key_hash)> wants;
};

/// What a look at the kept answers has found.
struct NextAnswer {
  /// An answer with the figures of its tokens.
  struct Scored {
    std::uint64_t key_hash = 0;
    std::string slice;        ///< canonical text
    bool unfiltered = false;  ///< the request asked for samples without filters
    AnswerScores scores;
  };
  std::uint64_t offset = 0;             ///< read so far; before the answer where an engine failed
  std::uint64_t file_bytes = 0;         ///< of the spool file
  std::uint64_t passed_over = 0;        ///< answers that cannot be scored, or are not wanted
  std::optional<Scored> scored;         ///< the next answer that could be
  std::optional<schema::Error> failed;  ///< why an engine did not score it
  std::uint64_t after_failed = 0;       ///< the end of that answer
};

/// Reads on until an answer was scored, an engine failed, or nothing more is there (at most a few MiB).
/// Answers to one prompt of /v1/completions are scored as text or token ids, others where they list the token
/// ids of prompt and answer and both engines take them. Blocks for two times kEngineTimeout at most. Errors:
/// `not_found` where the file cannot be opened.
/// Precondition: both engines can score.
[[nodiscard]] schema::Result<NextAnswer> rescore_next(const KeptAnswers& kept, const RescoreEngine& reference,
                                                      const RescoreEngine& served,
                                                      const net::OutgoingPolicy& policy);

}  // namespace driftgate::jobs
