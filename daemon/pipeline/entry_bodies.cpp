#include "daemon/pipeline/entry_bodies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/route/table/route_json.hpp"
#include "schema/json.hpp"
#include "schema/utf8.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::EntryValue;

bool is_entry_key(std::string_view key) {
  const auto tail = [](char c) { return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9') || c == '_'; };
  return !key.empty() && key.size() <= 64 && 'a' <= key[0] && key[0] <= 'z' && std::ranges::all_of(key, tail);
}

/// An object; where a name is no key of an entry, a list of {"name", "value"}.
template <typename Map, typename Make>
EntryValue named_values(const Map& map, const Make& make) {
  if (std::ranges::all_of(map, [](const auto& item) { return is_entry_key(item.first); })) {
    EntryValue::Object members;
    for (const auto& [name, value] : map) members.emplace(name, make(value));
    return members;
  }
  EntryValue::Array pairs;
  for (const auto& [name, value] : map) {
    pairs.emplace_back(EntryValue::Object{{"name", name}, {"value", make(value)}});
  }
  return pairs;
}

EntryValue text_value(const std::string& text) {
  return text;
}

/// Beyond 2^53 − 1 the hexadecimal digits as text. A measured number never comes here: it is a double in
/// memory, and what was read from text is typed by the name of its member.
EntryValue integer_value(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > schema::kMaxJsonInteger) return fmt::format("{:016x}", number);
    return number;
  }
  const auto number = value.get<std::int64_t>();
  if (number < -schema::kMaxEntryInteger) return fmt::format("-{:016x}", -static_cast<std::uint64_t>(number));
  return number;
}

}  // namespace

EntryValue entry_value(const json& value) {
  switch (value.type()) {
    case json::value_t::boolean:
      return value.get<bool>();
    case json::value_t::string:
      return value.get<std::string>();
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return integer_value(value);
    case json::value_t::number_float:
      return EntryValue::measured(value.get<double>());
    case json::value_t::object:
      return named_values(value.get_ref<const json::object_t&>(), entry_value);
    case json::value_t::array: {
      EntryValue::Array items;
      for (const auto& item : value) items.push_back(entry_value(item));
      return items;
    }
    default:
      return nullptr;
  }
}

schema::EvidenceSubject subject_of(const store::PromotionRow& promotion, std::string_view checkpoint,
                                   const store::StageKey* key) {
  schema::EvidenceSubject subject;
  subject.model = promotion.model;
  subject.promotion = promotion.id;
  subject.contract = promotion.contract;
  if (!checkpoint.empty()) subject.checkpoint = std::string(checkpoint);
  if (key != nullptr && !key->stage.empty()) {
    subject.stage = key->stage;
    subject.attempt = key->attempt;
  }
  return subject;
}

EntryValue::Object state_body(std::string_view from, std::string_view to, std::string_view stage,
                              std::string_view reason) {
  return {{"from", from}, {"to", to}, {"stage", stage}, {"reason", reason}};
}

EntryValue::Object route_body(const route::ModelRoute& route, std::string_view reason) {
  return {{"route", entry_value(route::to_json(route))},
          {"candidate_bp", route.candidate_bp},
          {"reason", reason}};
}

EntryValue::Object verdict_body(const schema::ClauseVerdict& verdict, std::string_view table_digest,
                                std::string_view code_version) {
  EntryValue::Object body{{"clause", verdict.clause},
                          {"verdict", schema::to_string(verdict.verdict)},
                          {"severity", schema::to_string(verdict.severity)},
                          {"where", named_values(verdict.where, text_value)},
                          {"slice", schema::slice_text(verdict.where)},
                          {"role", schema::to_string(verdict.role)},
                          {"rule", schema::to_string(verdict.rule)},
                          {"rules", verdict.rules},
                          {"n", verdict.n},
                          {"clusters", verdict.clusters},
                          {"limit_kind", verdict.limit_kind},
                          {"alpha", EntryValue::measured(verdict.alpha)},
                          {"method", verdict.method},
                          {"approximate", verdict.approximate},
                          {"no_harm_only", verdict.no_harm_only},
                          {"seed", std::to_string(verdict.seed)},
                          {"details", named_values(verdict.details, EntryValue::measured)},
                          {"message", verdict.message},
                          {"inputs_digest", table_digest},
                          {"code_version", code_version}};
  const auto put = [&](const char* name, const std::optional<double>& value) {
    if (value) body.emplace(name, EntryValue::measured(*value));
  };
  put("estimate", verdict.estimate);
  put("lower", verdict.lower);
  put("upper", verdict.upper);
  put("e_value", verdict.e_value);
  put("p_value", verdict.p_value);
  put("threshold", verdict.threshold);
  if (!verdict.tables.empty()) body.emplace("tables", named_values(verdict.tables, text_value));
  return body;
}

EntryValue::Object job_body(const store::JobRow& job, const jobs::JobDone& done) {
  const auto& result = done.result;
  EntryValue::Array digests;
  for (const auto& [name, digest] : result.digests) {
    digests.emplace_back(EntryValue::Object{{"name", name}, {"digest", digest}});
  }
  EntryValue::Object body{{"job", job.id},
                          {"name", job.name},
                          {"kind", job.kind},
                          {"ok", result.ok},
                          {"digests", std::move(digests)},
                          {"spec_digest", job.spec_digest},
                          {"wall_ms", result.wall_ms}};
  if (result.error) {
    body["error"] = EntryValue::Object{{"code", schema::to_string(result.error->code)},
                                       {"message", schema::utf8_text(result.error->message, 2'000)}};
  }
  if (done.place) {
    EntryValue::Array submissions;
    for (const auto& id : done.place->submissions) submissions.emplace_back(id);
    body["runner"] = done.place->runner;
    if (!submissions.empty()) body["slurm_jobs"] = std::move(submissions);
    if (!done.place->nodes.empty()) body["nodes"] = schema::utf8_text(done.place->nodes, 1'000);
  }
  const auto summary = json::parse(result.summary.empty() ? "{}" : result.summary, nullptr, false);
  if (summary.is_object() && result.summary.size() < 8'000) body["summary"] = entry_value(summary);
  return body;
}

}  // namespace driftgate::pipeline
