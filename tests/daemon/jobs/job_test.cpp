#include "daemon/jobs/job.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace driftgate;
using namespace driftgate::jobs;
using nlohmann::json;
using schema::ErrorCode;

namespace {

json spec_json() {
  return {{"key", "pr-1/offline-numeric/1/drift"},
          {"kind", "drift"},
          {"limits", {{"address_space_bytes", 1}, {"cpu_seconds", 2}, {"wall_ms", 3}, {"output_bytes", 4}}},
          {"payload", {{"train", "a"}}}};
}

/// `document` with the value at `pointer` replaced, or taken away when `value` is discarded.
std::string with(json document, const std::string& pointer, const json& value) {
  const json::json_pointer at(pointer);
  if (value.is_discarded()) {
    document.at(at.parent_pointer()).erase(at.back());
  } else {
    document[at] = value;
  }
  return document.dump();
}

const json kGone(json::value_t::discarded);

JobResult failure(schema::Error error) {
  JobResult result;
  result.error = std::move(error);
  return result;
}

}  // namespace

TEST_CASE("a job's spec reads back as it was written, its limits and its payload too") {
  for (const JobKind kind : {JobKind::drift, JobKind::capture, JobKind::rescore}) {
    JobSpec spec{"pr-1/s/2/step", kind, {}, R"({"b":[1,2.5,null],"a":"ä"})"};
    spec.limits = {1ULL << 40, 86'400, 0, 0};
    spec.ranks = 7;
    const auto again = job_spec_from_json(to_json(spec));
    REQUIRE(again);
    CHECK(again->key == spec.key);
    CHECK(again->kind == kind);
    CHECK(again->limits.address_space_bytes == spec.limits.address_space_bytes);
    CHECK(again->limits.cpu_seconds == spec.limits.cpu_seconds);
    CHECK(again->limits.wall_ms == 0);
    CHECK(again->limits.output_bytes == 0);
    CHECK(again->ranks == 7);
    CHECK(json::parse(again->payload) == json::parse(spec.payload));
  }
}

TEST_CASE("a damaged spec says that it is spec.json and what is wrong with it") {
  struct Damage {
    std::string text;
    const char* said;
    ErrorCode code = ErrorCode::invalid_document;
  };
  const Damage damages[] = {
      {"", "spec.json is not valid JSON"},
      {spec_json().dump().substr(0, 60), "spec.json is not valid JSON"},
      {"[]", "spec.json: "},
      {"null", "spec.json: "},
      {with(spec_json(), "/key", kGone), "key 'key' not found"},
      {with(spec_json(), "/key", 7), "type must be string"},
      {with(spec_json(), "/kind", kGone), "key 'kind' not found"},
      {with(spec_json(), "/kind", "defrag"), "unknown kind 'defrag' (at /kind)"},
      {with(spec_json(), "/kind", ""), "unknown kind ''"},
      {with(spec_json(), "/limits", kGone), "key 'limits' not found"},
      {with(spec_json(), "/limits/wall_ms", kGone), "key 'wall_ms' not found"},
      {with(spec_json(), "/limits/wall_ms", "1h"), "type must be number"},
      {with(spec_json(), "/limits/cpu_seconds", json::array()), "type must be number"},
      {with(spec_json(), "/payload", kGone), "key 'payload' not found"},
      {with(spec_json(), "/ranks", 0), "0 ranks; allowed: 1 to 4096 (at /ranks)", ErrorCode::limit_exceeded},
      {with(spec_json(), "/ranks", 4'097), "4097 ranks", ErrorCode::limit_exceeded},
      {with(spec_json(), "/ranks", "two"), "type must be number"},
      {with(spec_json(), "/limits/cpu_seconds", 9'007'199'254'740'993), "beyond 2^53"},
      {R"({"key":"a","key":"b"})", "appears twice"},
      {std::string(R"({"key":")") + '\0' + R"("})", "NUL byte"},
      {"\xEF\xBB\xBF{}", "byte-order mark"},
      {std::string(40, '[') + std::string(40, ']'), "levels of nesting", ErrorCode::limit_exceeded},
      {"\"" + std::string(8u << 20, 'x') + "\"", "at most 8388608 are accepted", ErrorCode::limit_exceeded},
  };
  for (const Damage& damage : damages) {
    CAPTURE(damage.said);
    const auto spec = job_spec_from_json(damage.text);
    REQUIRE_FALSE(spec);
    CHECK(spec.error().code == damage.code);
    CAPTURE(spec.error().describe());
    CHECK(spec.error().describe().find(damage.said) != std::string::npos);
    CHECK(spec.error().message.starts_with("spec.json"));
  }
}

TEST_CASE("a result reads back as it was written") {
  JobResult result;
  result.ok = true;
  result.summary = R"({"rows":3,"notes":["ä"]})";
  result.files = {{"table", "table.bin"}, {"pairs", "pairs.jsonl"}};
  result.digests = {{"train", "sha256:a"}, {"table", "sha256:b"}};
  result.wall_ms = 1'234;
  const auto again = job_result_from_json(to_json(result));
  REQUIRE(again);
  CHECK(again->ok);
  CHECK_FALSE(again->error.has_value());
  CHECK(json::parse(again->summary) == json::parse(result.summary));
  CHECK(again->files == result.files);
  CHECK(again->digests == result.digests);
  CHECK(again->wall_ms == 1'234);
  result.summary.clear();
  CHECK(job_result_from_json(to_json(result))->summary == "{}");
}

TEST_CASE("every kind of failure keeps its code and says the same after its file was read") {
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    CAPTURE(schema::to_string(code));
    const auto inner = std::make_shared<const schema::Error>(
        schema::Error{ErrorCode::io, "cannot read a.safetensors", "byte 8", nullptr});
    const auto before = failure({code, "the train capture", "/train", inner});
    const auto after = job_result_from_json(to_json(before));
    REQUIRE(after);
    REQUIRE(after->error.has_value());
    CHECK_FALSE(after->ok);
    CHECK(after->error->code == code);
    CHECK(after->error->where == "/train");
    // The place is said once, however often the result is written and read.
    const auto said = after->error->describe();
    CHECK(said.find("cannot read a.safetensors (at byte 8)") != std::string::npos);
    CHECK(said.find("(at /train)") == said.rfind("(at /train)"));
    CHECK(job_result_from_json(to_json(*after))->error->describe() == said);
  }
}

TEST_CASE("what an error quotes is cut between characters and made UTF-8") {
  std::string words;
  while (words.size() < 10'000) words += "ä\xFF";
  const auto after = job_result_from_json(to_json(failure({ErrorCode::io, words, words, nullptr})));
  REQUIRE(after);
  CHECK(after->error->message.size() <= 4'096);
  CHECK(after->error->message.size() > 4'000);
  CHECK(after->error->message.starts_with("ä\xEF\xBF\xBD"));
  CHECK(after->error->where.size() <= 4'096);
}

TEST_CASE("a damaged result says that it is result.json and what is wrong with it") {
  const json good{{"ok", true},
                  {"summary", json::object()},
                  {"files", {{"table", "table.bin"}}},
                  {"digests", json::object()},
                  {"wall_ms", 1}};
  REQUIRE(job_result_from_json(good.dump()));
  const std::pair<std::string, const char*> damages[] = {
      {"", "not valid JSON"},
      {good.dump().substr(0, good.dump().size() - 1), "not valid JSON"},
      {"3", "result.json: "},
      {"[]", "result.json: "},
      {with(good, "/ok", kGone), "key 'ok' not found"},
      {with(good, "/ok", "yes"), "type must be boolean"},
      {with(good, "/ok", false), "the job failed but not why (at /error)"},
      {with(good, "/files", json{{"table", 3}}), "type must be string"},
      {with(good, "/files", 3), "files is not an object"},
      {with(good, "/files", {"table.bin"}), "files is not an object"},
      {with(good, "/digests", {"sha256:a"}), "digests is not an object"},
      {with(good, "/digests", json{{"table", nullptr}}), "type must be string"},
      {with(good, "/summary", {1, 2}), "summary is not an object"},
      {with(good, "/summary", "rows"), "summary is not an object"},
      {with(good, "/wall_ms", "fast"), "type must be number"},
      {with(good, "/error", "broken"), "type_error"},
      {with(good, "/error", json{{"code", 4}}), "type must be string"},
  };
  for (const auto& [text, said] : damages) {
    CAPTURE(said);
    const auto result = job_result_from_json(text);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::invalid_document);
    CAPTURE(result.error().describe());
    CHECK(result.error().describe().find("result.json") != std::string::npos);
    CHECK(result.error().describe().find(said) != std::string::npos);
  }
}

TEST_CASE("an error of a newer program, whose code is not known here, is internal and keeps its words") {
  const auto result = job_result_from_json(R"({"ok":false,"error":{"code":"too_cold","message":"warm it"}})");
  REQUIRE(result);
  CHECK(result->error->code == ErrorCode::internal);
  CHECK(result->error->message == "warm it");
}
