#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/evidence/verify/derivation.hpp"

namespace driftgate::evidence {

/// The in-toto statements (in-toto.io/Statement/v1) that follow from a promotion's entries, as canonical JSON
/// (RFC 8785): a test-result/v0.1 for each attempt of a stage that was decided, in the order of the log
/// (PASSED, WARNED = inconclusive, FAILED = violated or error), then, when the promotion has ended, a
/// verification_summary/v1: PASSED when its candidate was promoted and not taken back. The subject is the
/// checkpoint's manifest digest. The same entries give the same bytes.
[[nodiscard]] std::vector<std::string> statements_of(const PromotionDerivation& promotion,
                                                     std::string_view origin);

}  // namespace driftgate::evidence
