#pragma once

#include <string_view>

#include "daemon/route/http/body_json.hpp"
#include "daemon/route/http/operations.hpp"

namespace driftgate::route {

/// Completes what scan_request_body found with what is particular to a shape: the sticky key of messages
/// (`metadata.user_id`, which then is no attribute of a slice), the length of prompts that are not called
/// `prompt` or `messages`, and that embeddings are never streamed.
void read_shape(ApiShape shape, std::string_view body, BodyFacts& facts);

}  // namespace driftgate::route
