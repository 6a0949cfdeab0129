#pragma once

#include <cstdint>
#include <string>

#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

/// Destroys what is kept of single requests and keys of a promotion that has ended: the pair records and the
/// target-token table of its shadow-runtime attempts and of its canary's samples, and the memory of the
/// canary's tests. Prompts and answers are not among it: they lie in the spool and in job folders only, which
/// go when their stage ends. Verdicts, their numbers and the digests of what was destroyed stay; the entry
/// `evidence_redacted` says what, why and by whom. `conflict` while the promotion runs, or when nothing is
/// left to destroy.
[[nodiscard]] schema::Result<void> redact_promotion(store::Store& store, const std::string& actor,
                                                    const std::string& promotion, const std::string& reason,
                                                    std::int64_t now_us);

}  // namespace driftgate::pipeline
