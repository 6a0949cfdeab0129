#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "daemon/jobs/engines/golden.hpp"
#include "schema/error.hpp"
#include "stages/guard/identity.hpp"

namespace driftgate::pipeline {

/// The golden prompts that the promotion's corpus gives; none where it has no texts.
struct PromptsFound {
  schema::Result<std::vector<std::string>> prompts;
};
/// The answer to a golden prompt.
struct ProbeAnswered {
  schema::Result<jobs::GoldenAnswer> golden;
  std::size_t prompt = 0;  ///< its index
  std::int64_t asked_us = 0;
};
/// What the engine tells of itself.
struct IdentityTold {
  schema::Result<stages::Identity> identity;
};
/// What a look at a guarded engine has brought back.
struct GuardLook {
  std::variant<std::monostate, PromptsFound, ProbeAnswered, IdentityTold> found;
};

}  // namespace driftgate::pipeline
