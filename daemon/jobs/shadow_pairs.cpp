#include "daemon/jobs/shadow_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "gpu/ingest/answer_shape.hpp"
#include "gpu/ingest/answer_tokens.hpp"
#include "schema/json.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using stages::RequestOutcome;

constexpr const char* kSalt = "salt";
constexpr schema::JsonLimits kLineLimits{.bytes = 4'096, .depth = 4, .values = 100};

RequestOutcome outcome_of(const route::MirroredPair::Side& side) {
  if (side.status / 100 == 2) return side.reason.empty() ? RequestOutcome::ok : RequestOutcome::failed;
  if (side.status / 100 == 4 && side.status != 429) return RequestOutcome::excluded;
  return RequestOutcome::failed;
}

stages::Latencies latencies_of(const route::MirroredPair::Side& side) {
  if (outcome_of(side) != RequestOutcome::ok) return {};
  return {side.ttft_ms, side.inter_token_ms, side.total_ms};
}

json latency_json(const stages::Latencies& l) {
  const auto value = [](double ms) { return std::isfinite(ms) ? json(ms) : json(nullptr); };
  return json::array({value(l.ttft_ms), value(l.inter_token_ms), value(l.total_ms)});
}

stages::Latencies latency_from(const json& value) {
  const auto number = [&](std::size_t i) {
    return value.at(i).is_null() ? std::numeric_limits<double>::quiet_NaN() : value.at(i).get<double>();
  };
  return {number(0), number(1), number(2)};
}

void add_ids(const json& choice, const char* name, std::vector<std::int64_t>& ids) {
  const json* found = base::member(choice, name);
  if (found == nullptr || !found->is_array()) return;
  for (const auto& id : *found) {
    if (id.is_number_integer()) ids.push_back(id.get<std::int64_t>());
  }
}

/// Adds what one JSON object of an answer or of a stream event generated.
void add_choice(const json& object, Generated& found) {
  const json* choice = first_choice(object);
  if (choice == nullptr || !choice->is_object()) return;
  found.has_choice = true;
  found.text += base::text_at(*choice, "text");
  found.text += base::text_at(base::object_at(*choice, "message"), "content");
  found.text += base::text_at(base::object_at(*choice, "delta"), "content");
  add_ids(*choice, "prompt_token_ids", found.prompt_ids);
  add_ids(*choice, "token_ids", found.ids);
  const auto shape = gpu::ingest::shape_of(object);
  if (shape != gpu::ingest::Format::openai && shape != gpu::ingest::Format::chat) return;
  const auto tokens = gpu::ingest::answer_tokens(object);
  if (!tokens) return;
  const bool lists_ids = base::member(*choice, "token_ids") != nullptr;
  for (const auto& token : *tokens) {
    found.tokens.push_back(token.text);
    found.logprobs.push_back(token.logprob);
    if (token.id && !lists_ids) found.ids.push_back(*token.id);
  }
}

bool at_default(const json& body, const char* name, double neutral) {
  const json* found = base::member(body, name);
  return found == nullptr || (found->is_number() && found->get<double>() == neutral);
}

}  // namespace

stages::ShadowPair pair_of(const route::MirroredPair& mirrored) {
  stages::ShadowPair pair;
  pair.order = mirrored.order;
  pair.key_hash = mirrored.key_hash;
  pair.slice = mirrored.slice;
  pair.incumbent = outcome_of(mirrored.incumbent);
  pair.candidate = outcome_of(mirrored.candidate);
  pair.incumbent_latency = latencies_of(mirrored.incumbent);
  pair.candidate_latency = latencies_of(mirrored.candidate);
  return pair;
}

std::string pairs_to_jsonl(const std::vector<stages::ShadowPair>& pairs, std::string_view salt) {
  std::string lines;
  if (!salt.empty()) lines = schema::canonical_json(json{{kSalt, salt}}) + "\n";
  for (const auto& pair : pairs) {
    json line{{"order", pair.order},
              {"key", fmt::format("{:016x}", pair.key_hash)},
              {"slice", pair.slice},
              {"incumbent", static_cast<int>(pair.incumbent)},
              {"candidate", static_cast<int>(pair.candidate)},
              {"incumbent_ms", latency_json(pair.incumbent_latency)},
              {"candidate_ms", latency_json(pair.candidate_latency)},
              {"logprobs", pair.has_logprobs}};
    if (pair.equal_tokens) line["equal"] = *pair.equal_tokens;
    if (pair.compared_tokens) line["compared"] = *pair.compared_tokens;
    if (pair.batch_variant) line["batch_variant"] = *pair.batch_variant;
    lines += schema::canonical_json(line) + "\n";
  }
  return lines;
}

schema::Result<std::vector<stages::ShadowPair>> pairs_from_jsonl(std::string_view text) {
  std::vector<stages::ShadowPair> pairs;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    auto parsed = schema::parse_json(line, kLineLimits, "a pair record");
    if (!parsed) return schema::wrap(parsed.error(), fmt::format("line {} of the pair records", number));
    if (number == 1 && parsed->is_object() && parsed->size() == 1 && parsed->contains(kSalt)) continue;
    try {
      stages::ShadowPair pair;
      parsed->at("order").get_to(pair.order);
      pair.key_hash = std::stoull(parsed->at("key").get<std::string>(), nullptr, 16);
      parsed->at("slice").get_to(pair.slice);
      pair.incumbent = static_cast<RequestOutcome>(std::clamp(parsed->at("incumbent").get<int>(), 0, 2));
      pair.candidate = static_cast<RequestOutcome>(std::clamp(parsed->at("candidate").get<int>(), 0, 2));
      pair.incumbent_latency = latency_from(parsed->at("incumbent_ms"));
      pair.candidate_latency = latency_from(parsed->at("candidate_ms"));
      parsed->at("logprobs").get_to(pair.has_logprobs);
      if (parsed->contains("equal")) pair.equal_tokens = parsed->at("equal").get<std::uint32_t>();
      if (parsed->contains("compared")) pair.compared_tokens = parsed->at("compared").get<std::uint32_t>();
      if (parsed->contains("batch_variant")) pair.batch_variant = parsed->at("batch_variant").get<bool>();
      pairs.push_back(std::move(pair));
    } catch (const std::exception& fault) {
      return schema::fail(ErrorCode::invalid_document,
                          fmt::format("line {} of the pair records: {}", number, fault.what()));
    }
  }
  return pairs;
}

Generated generated_of(const route::MirroredPair::Side& side) {
  Generated found;
  const auto start = side.body.find_first_not_of(" \r\n\t");
  if (start == std::string::npos) return found;
  if (side.body[start] == '{') {
    if (auto parsed = schema::parse_json(side.body, kBodyLimits, "an answer")) add_choice(*parsed, found);
    return found;
  }
  std::string_view rest = side.body;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    auto line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (auto parsed = schema::parse_json(line, kBodyLimits, "an event")) add_choice(*parsed, found);
  }
  return found;
}

std::string prompt_of(const route::MirroredPair& pair) {
  if (pair.path != "/v1/completions") return {};
  const auto parsed = schema::parse_json(pair.request_body, kBodyLimits, "a request");
  return parsed ? base::text_at(*parsed, "prompt") : std::string();
}

bool sampled_unfiltered(const route::MirroredPair& pair) {
  const auto parsed = schema::parse_json(pair.request_body, kBodyLimits, "a request");
  if (!parsed || !parsed->is_object()) return false;
  const auto& body = *parsed;
  const bool no_top_k = at_default(body, "top_k", 0) || at_default(body, "top_k", -1);
  return at_default(body, "temperature", 1) && at_default(body, "top_p", 1) && no_top_k &&
         at_default(body, "min_p", 0) && at_default(body, "frequency_penalty", 0) &&
         at_default(body, "presence_penalty", 0) && at_default(body, "repetition_penalty", 1) &&
         !body.contains("logit_bias");
}

Agreement compare_generated(const Generated& a, const Generated& b) {
  Agreement found;
  const auto count = [&](const auto& left, const auto& right) {
    const auto shorter = std::min(left.size(), right.size());
    const auto at =
        std::mismatch(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(shorter), right.begin());
    found.equal = static_cast<std::uint32_t>(at.first - left.begin());
    // One side ending earlier is a difference at that place.
    const bool differs = found.equal < shorter || left.size() != right.size();
    found.compared = found.equal + (differs ? 1U : 0U);
  };
  if (!a.tokens.empty() && !b.tokens.empty()) {
    count(a.tokens, b.tokens);
  } else {
    count(a.text, b.text);
  }
  return found;
}

}  // namespace driftgate::jobs
