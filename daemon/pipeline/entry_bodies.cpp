#include "daemon/pipeline/entry_bodies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/route/route_json.hpp"
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

EntryValue object_value(const json& value) {
  const auto& object = value.get_ref<const json::object_t&>();
  if (std::ranges::all_of(object, [](const auto& item) { return is_entry_key(item.first); })) {
    EntryValue::Object members;
    for (const auto& [key, item] : object) members.emplace(key, entry_value(item));
    return members;
  }
  EntryValue::Array pairs;
  for (const auto& [key, item] : object) {
    pairs.emplace_back(EntryValue::Object{{"name", key}, {"value", entry_value(item)}});
  }
  return pairs;
}

EntryValue integer_value(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > schema::kMaxJsonInteger) return fmt::format("{:016x}", number);
    return number;
  }
  return value.get<std::int64_t>();
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
      return object_value(value);
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
  const auto parsed = json::parse(schema::to_json(verdict), nullptr, false);
  EntryValue::Object body;
  if (parsed.is_object()) {
    for (const auto& [key, value] : parsed.items()) {
      if (is_entry_key(key)) body.emplace(key, entry_value(value));
    }
  }
  body["clause"] = verdict.clause;
  body["verdict"] = schema::to_string(verdict.verdict);
  body["slice"] = schema::slice_text(verdict.where);
  body["inputs_digest"] = table_digest;
  body["code_version"] = code_version;
  return body;
}

EntryValue::Object job_body(const store::JobRow& job, const jobs::JobResult& result) {
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
  const auto summary = json::parse(result.summary.empty() ? "{}" : result.summary, nullptr, false);
  if (summary.is_object() && result.summary.size() < 8'000) body["summary"] = entry_value(summary);
  return body;
}

}  // namespace driftgate::pipeline
