#include "daemon/jobs/slurm/submissions.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_members.hpp"
#include "daemon/jobs/slurm/slurm_commands.hpp"
#include "schema/json.hpp"
#include "schema/utf8.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr schema::JsonLimits kLimits{.bytes = 1u << 20, .depth = 8, .values = 50'000};
constexpr std::size_t kMaxText = 4'096;

std::string text_of(const std::string& text) {
  return schema::utf8_text(text, kMaxText);
}

schema::Error error_of(const json& value) {
  schema::Error error;
  const auto name = base::text_at(value, "code");
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    if (schema::to_string(static_cast<ErrorCode>(i)) == name) error.code = static_cast<ErrorCode>(i);
  }
  error.message = base::text_at(value, "message");
  return error;
}

bool is_true(const json& value, const char* name) {
  const auto* const found = base::member(value, name);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

Submission submission_of(const json& value) {
  Submission one;
  one.id = base::text_at(value, "id");
  one.submitted_us = base::integer_at(value, "submitted_us");
  one.state = base::text_at(value, "state");
  one.reason = base::text_at(value, "reason");
  one.nodes = base::text_at(value, "nodes");
  one.restarts = static_cast<std::uint32_t>(base::integer_at(value, "restarts"));
  one.exit_code = static_cast<int>(base::integer_at(value, "exit_code"));
  one.signal = static_cast<int>(base::integer_at(value, "signal"));
  one.used_s = base::integer_at(value, "used_s");
  one.limit_s = base::integer_at(value, "limit_s");
  one.superseded = is_true(value, "superseded");
  return one;
}

}  // namespace

const Submission* newest(const SubmissionRecord& record) {
  for (auto one = record.submissions.rbegin(); one != record.submissions.rend(); ++one) {
    if (!one->superseded) return &*one;
  }
  return nullptr;
}

bool SubmissionRecord::operator==(const SubmissionRecord& other) const {
  const bool same_end =
      ended.has_value() == other.ended.has_value() &&
      (!ended || (ended->code == other.ended->code && ended->message == other.ended->message));
  return same_end && submissions == other.submissions && measured_bytes == other.measured_bytes &&
         stalled == other.stalled && cancelled == other.cancelled;
}

std::string to_json(const SubmissionRecord& record) {
  json list = json::array();
  for (const auto& one : record.submissions) {
    list.push_back({{"id", one.id},
                    {"submitted_us", one.submitted_us},
                    {"state", text_of(one.state)},
                    {"reason", text_of(one.reason)},
                    {"nodes", text_of(one.nodes)},
                    {"restarts", one.restarts},
                    {"exit_code", one.exit_code},
                    {"signal", one.signal},
                    {"used_s", one.used_s},
                    {"limit_s", one.limit_s},
                    {"superseded", one.superseded}});
  }
  json value{{"submissions", std::move(list)},
             {"measured_bytes", record.measured_bytes},
             {"stalled", record.stalled},
             {"cancelled", record.cancelled}};
  if (record.ended)
    value["ended"] = {{"code", schema::to_string(record.ended->code)},
                      {"message", text_of(record.ended->message)}};
  return schema::canonical_json(value);
}

schema::Result<SubmissionRecord> submission_record_from_json(std::string_view text) {
  const auto parsed = TRY(schema::parse_json(text, kLimits, kSubmissionsFile));
  const auto* const list = base::member(parsed, "submissions");
  if (list == nullptr || !list->is_array())
    return schema::fail(ErrorCode::corrupt, fmt::format("{} has no list of submissions", kSubmissionsFile));
  SubmissionRecord record;
  for (const auto& one : *list) {
    auto submission = submission_of(one);
    // The file lies where adapters run, and the number becomes a word of Slurm's programs.
    if (!is_slurm_id(submission.id))
      return schema::fail(ErrorCode::corrupt,
                          fmt::format("{} has a submission without a number of Slurm", kSubmissionsFile));
    record.submissions.push_back(std::move(submission));
  }
  record.measured_bytes = static_cast<std::uint64_t>(base::integer_at(parsed, "measured_bytes"));
  record.stalled = static_cast<std::uint32_t>(base::integer_at(parsed, "stalled"));
  record.cancelled = is_true(parsed, "cancelled");
  if (const auto* const ended = base::member(parsed, "ended")) record.ended = error_of(*ended);
  return record;
}

schema::Result<SubmissionRecord> read_submissions(const JobFolder& folder) {
  const auto text = folder.get(kSubmissionsFile);
  if (!text && text.error().code == ErrorCode::not_found) return SubmissionRecord{};
  if (!text) return std::unexpected(text.error());
  return submission_record_from_json(*text);
}

std::uint64_t measured_bytes(const JobFolder& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;
  for (std::filesystem::directory_iterator item(folder.path() / "chunks", ignored), end; item != end;
       item.increment(ignored)) {
    std::error_code gone;
    const bool whole = item->is_regular_file(gone) && item->path().extension() != ".tmp";
    const auto size = whole ? item->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

JobPlace place_of(const SubmissionRecord& record) {
  JobPlace place{"slurm", "", "waiting", "", ""};
  for (const auto& one : record.submissions) place.submissions.push_back(one.id);
  const Submission* before = nullptr;
  const Submission* last = nullptr;
  for (const auto& one : record.submissions) {
    if (!one.superseded) before = std::exchange(last, &one);
  }
  if (last == nullptr) return place;
  place.remote = last->id;
  place.nodes = last->nodes;
  place.reason = last->reason;
  place.state = record.ended ? "ended" : last->nodes.empty() ? "queued" : "running";
  if (before != nullptr)
    place.reason = fmt::format("{}, submitted again as {}{}{}", before->state, last->id,
                               last->reason.empty() ? "" : "; ", last->reason);
  return place;
}

}  // namespace driftgate::jobs
