#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "daemon/pipeline/service.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

inline constexpr std::size_t kMaxReasonBytes = 1000;

/// Reads a request body: a JSON object with no members but `members`. `invalid_document` with a pointer.
[[nodiscard]] schema::Result<nlohmann::json> parse_body(std::string_view text,
                                                        std::initializer_list<std::string_view> members);

/// Reads {"reason": "…"}: why a person does what the path says. `invalid_document` with a pointer.
[[nodiscard]] schema::Result<std::string> parse_reason(std::string_view json);

/// Reads {"reason": "…", "evidence_digest": "sha256:…"?}: the same, of what was shown under that digest.
[[nodiscard]] schema::Result<pipeline::Order> parse_order(std::string_view json);

struct ApprovalBody {
  std::string evidence_digest, reason;
};
/// Reads {"evidence_digest": "…", "reason": "…"}.
[[nodiscard]] schema::Result<ApprovalBody> parse_approval(std::string_view json);

struct WaiverBody {
  std::string clause, evidence_digest, reason;
};
/// Reads {"clause": "family.id", "evidence_digest": "…", "reason": "…"}.
[[nodiscard]] schema::Result<WaiverBody> parse_waiver(std::string_view json);

}  // namespace driftgate::api
