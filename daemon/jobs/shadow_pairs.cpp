#include "daemon/jobs/shadow_pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "daemon/base/json_members.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "gpu/ingest/answer_shape.hpp"
#include "gpu/ingest/answer_tokens.hpp"
#include "schema/json.hpp"
#include "schema/metrics.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using stages::RequestOutcome;

constexpr const char* kSalt = "salt";
constexpr schema::JsonLimits kLineLimits{.bytes = 4'096, .depth = 4, .values = 100};
constexpr schema::JsonLimits kPropsLimits{.bytes = 4u << 20, .depth = 32, .values = 100'000};

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

std::optional<std::uint32_t> count_from(const json& line, const char* name) {
  if (!line.contains(name)) return std::nullopt;
  return line.at(name).get<std::uint32_t>();
}

void add_ids(const json& choice, const char* name, std::vector<std::int64_t>& ids) {
  const json* found = base::member(choice, name);
  if (found == nullptr || !found->is_array()) return;
  for (const auto& id : *found) {
    if (id.is_number_integer()) ids.push_back(id.get<std::int64_t>());
  }
}

/// What the objects of one answer say together.
struct Reading {
  Generated found{};
  gpu::ingest::StatedTokens stated{};
  std::vector<gpu::ingest::AnswerToken> entries{};  ///< of its list of log-probabilities
  bool lists_ids = false;                           ///< it gives the ids of its tokens apart from them
  bool lists_texts = false;  ///< they are texts (`logprobs.tokens`), one for each token by their definition
};

/// Adds what one JSON object of an answer or of a stream event generated.
void add_choice(const json& object, Reading& reading) {
  Generated& found = reading.found;
  gpu::ingest::add_stated(object, reading.stated);
  const json* choice = first_choice(object);
  if (choice == nullptr || !choice->is_object()) return;
  found.has_choice = true;
  found.text += base::text_at(*choice, "text");
  found.text += base::text_at(base::object_at(*choice, "message"), "content");
  found.text += base::text_at(base::object_at(*choice, "delta"), "content");
  add_ids(*choice, "prompt_token_ids", found.prompt_ids);
  add_ids(*choice, "token_ids", found.ids);
  reading.lists_ids = reading.lists_ids || base::member(*choice, "token_ids") != nullptr;
  const auto shape = gpu::ingest::shape_of(object);
  if (shape != gpu::ingest::Format::openai && shape != gpu::ingest::Format::chat) return;
  const auto tokens = gpu::ingest::answer_tokens(object);
  if (!tokens) return;
  reading.lists_texts = reading.lists_texts || shape == gpu::ingest::Format::openai;
  for (const auto& token : *tokens) {
    found.tokens.push_back(token.text);
    found.logprobs.push_back(token.logprob);
    if (token.id && !reading.lists_ids) found.ids.push_back(*token.id);
    reading.entries.push_back(token);
  }
}

Generated finished(Reading reading) {
  Generated& found = reading.found;
  found.lists_all = reading.lists_texts || gpu::ingest::lists_every_token(reading.entries, reading.stated);
  if (!found.lists_all && !reading.lists_ids) found.ids.clear();
  return std::move(found);
}

/// A sampling parameter under the names that engines have for it.
struct Parameter {
  const char* name;
  const char* other_name;
  double neutral;
  bool zero_or_less;       ///< every value up to 0 is neutral
  bool differs_by_engine;  ///< engines take different values where a request leaves it out
};
constexpr Parameter kParameters[] = {{"temperature", nullptr, 1, false, true},
                                     {"top_p", nullptr, 1, false, true},
                                     {"top_k", nullptr, 0, true, true},
                                     {"min_p", nullptr, 0, true, true},
                                     {"repetition_penalty", "repeat_penalty", 1, false, true},
                                     {"frequency_penalty", nullptr, 0, false, false},
                                     {"presence_penalty", nullptr, 0, false, false},
                                     {"typical_p", "typ_p", 1, false, false},
                                     {"top_n_sigma", nullptr, 0, true, false},
                                     {"xtc_probability", nullptr, 0, true, false},
                                     {"dry_multiplier", nullptr, 0, false, false},
                                     {"dynatemp_range", nullptr, 0, false, false},
                                     {"mirostat", nullptr, 0, false, false}};

Sampling sampling_by(const Parameter& parameter, const json& body, const SamplingDefaults& defaults) {
  std::optional<double> value;
  for (const char* name : {parameter.other_name, parameter.name}) {
    const json* stated = name == nullptr ? nullptr : base::member(body, name);
    if (stated == nullptr) continue;
    if (!stated->is_number()) return Sampling::filtered;
    value = stated->get<double>();
  }
  for (const char* name : {parameter.other_name, parameter.name}) {
    if (value || name == nullptr) continue;
    if (const auto told = defaults.find(name); told != defaults.end()) value = told->second;
  }
  if (!value) return parameter.differs_by_engine ? Sampling::unknown : Sampling::unfiltered;
  const bool neutral = *value == parameter.neutral || (parameter.zero_or_less && *value <= 0);
  return neutral ? Sampling::unfiltered : Sampling::filtered;
}

json agreement_json(const stages::GreedyAgreement& agreement) {
  return json::array({agreement.equal, agreement.longest});
}

std::optional<stages::GreedyAgreement> agreement_from(const json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return std::nullopt;
  const stages::GreedyAgreement agreement{found->at(0).get<std::uint32_t>(),
                                          found->at(1).get<std::uint32_t>()};
  if (agreement.equal <= agreement.longest && agreement.longest <= schema::kGreedyTokens) return agreement;
  throw std::out_of_range(std::string(name) + " has more tokens than answers that are compared");
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
  pair.incumbent_in_flight = mirrored.incumbent.in_flight;
  pair.candidate_in_flight = mirrored.candidate.in_flight;
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
    if (pair.incumbent_in_flight) line["incumbent_in_flight"] = *pair.incumbent_in_flight;
    if (pair.candidate_in_flight) line["candidate_in_flight"] = *pair.candidate_in_flight;
    if (pair.equal_tokens) line["equal"] = *pair.equal_tokens;
    if (pair.compared_tokens) line["compared"] = *pair.compared_tokens;
    if (pair.batch_variant) line["batch_variant"] = *pair.batch_variant;
    if (pair.greedy) line["greedy"] = agreement_json(*pair.greedy);
    if (pair.greedy_floor) line["greedy_floor"] = agreement_json(*pair.greedy_floor);
    if (pair.unlisted_tokens) line["unlisted_tokens"] = true;
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
      pair.incumbent_in_flight = count_from(*parsed, "incumbent_in_flight");
      pair.candidate_in_flight = count_from(*parsed, "candidate_in_flight");
      pair.equal_tokens = count_from(*parsed, "equal");
      pair.compared_tokens = count_from(*parsed, "compared");
      if (parsed->contains("batch_variant")) pair.batch_variant = parsed->at("batch_variant").get<bool>();
      pair.greedy = agreement_from(*parsed, "greedy");
      pair.greedy_floor = agreement_from(*parsed, "greedy_floor");
      if (parsed->contains("unlisted_tokens")) parsed->at("unlisted_tokens").get_to(pair.unlisted_tokens);
      pairs.push_back(std::move(pair));
    } catch (const std::exception& fault) {
      return schema::fail(ErrorCode::invalid_document,
                          fmt::format("line {} of the pair records: {}", number, fault.what()));
    }
  }
  return pairs;
}

Generated generated_of(const route::MirroredPair::Side& side) {
  Reading reading;
  const auto start = side.body.find_first_not_of(" \r\n\t");
  if (start == std::string::npos) return finished(std::move(reading));
  if (side.body[start] == '{') {
    if (auto parsed = schema::parse_json(side.body, kBodyLimits, "an answer")) add_choice(*parsed, reading);
    return finished(std::move(reading));
  }
  std::string_view rest = side.body;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    auto line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    if (auto parsed = schema::parse_json(line, kBodyLimits, "an event")) add_choice(*parsed, reading);
  }
  return finished(std::move(reading));
}

std::string prompt_of(const route::MirroredPair& pair) {
  if (pair.path != "/v1/completions") return {};
  const auto parsed = schema::parse_json(pair.request_body, kBodyLimits, "a request");
  return parsed ? base::text_at(*parsed, "prompt") : std::string();
}

SamplingDefaults sampling_defaults(std::string_view props_json) {
  SamplingDefaults defaults;
  const auto parsed = schema::parse_json(props_json, kPropsLimits, "the answer to GET /props");
  if (!parsed) return defaults;
  const json settings = base::object_at(*parsed, "default_generation_settings");
  const json params = base::object_at(settings, "params");
  for (const Parameter& parameter : kParameters) {
    for (const char* name : {parameter.name, parameter.other_name}) {
      if (name == nullptr) continue;
      // Newer servers have the parameters in `params`, older ones beside other settings.
      for (const json* holder : {&settings, &params}) {
        const json* value = base::member(*holder, name);
        if (value != nullptr && value->is_number()) defaults[name] = value->get<double>();
      }
    }
  }
  return defaults;
}

Sampling sampling_of(const route::MirroredPair& pair, const SamplingDefaults& defaults) {
  const auto parsed = schema::parse_json(pair.request_body, kBodyLimits, "a request");
  if (!parsed || !parsed->is_object()) return Sampling::unknown;
  const json* bias = base::member(*parsed, "logit_bias");
  if (bias != nullptr && !bias->empty()) return Sampling::filtered;
  Sampling all = Sampling::unfiltered;
  for (const Parameter& parameter : kParameters) {
    const Sampling one = sampling_by(parameter, *parsed, defaults);
    if (one == Sampling::filtered) return one;
    if (one == Sampling::unknown) all = one;
  }
  return all;
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
  const bool by_token = a.lists_all && b.lists_all && !a.tokens.empty() && !b.tokens.empty();
  if (by_token) {
    count(a.tokens, b.tokens);
  } else {
    count(a.text, b.text);
  }
  return found;
}

std::optional<stages::GreedyAgreement> greedy_agreement(const Generated& a, const Generated& b) {
  // An answer of no text has no tokens to list.
  const auto known = [](const Generated& g) { return g.lists_all && (!g.tokens.empty() || g.text.empty()); };
  if (!known(a) || !known(b)) return std::nullopt;
  const auto count = [](const auto& left, const auto& right) {
    const std::size_t most = schema::kGreedyTokens;
    const std::size_t of_left = std::min(left.size(), most), of_right = std::min(right.size(), most);
    const auto end = left.begin() + static_cast<std::ptrdiff_t>(std::min(of_left, of_right));
    const auto differs = std::mismatch(left.begin(), end, right.begin()).first;
    return stages::GreedyAgreement{static_cast<std::uint32_t>(differs - left.begin()),
                                   static_cast<std::uint32_t>(std::max(of_left, of_right))};
  };
  const auto has_ids = [](const Generated& g) { return g.ids.size() == g.tokens.size(); };
  return has_ids(a) && has_ids(b) ? count(a.ids, b.ids) : count(a.tokens, b.tokens);
}

}  // namespace driftgate::jobs
