#include "daemon/route/http/body_json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "daemon/route/http/body_scan.hpp"

namespace driftgate::route {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The number where it is a whole one without a sign that 64 bits hold.
std::optional<std::uint64_t> unsigned_number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Members of the top object that are read.
enum class Member : std::uint8_t {
  model,
  user,
  stream,
  metadata,
  max_tokens,
  max_completion_tokens,
  n,
  prompt,  // from here on what may stand there twice
  messages,
  other,
};
constexpr std::array<std::string_view, 9> kMembers{
    "model", "user", "stream", "metadata", "max_tokens", "max_completion_tokens", "n", "prompt", "messages"};

Member member_of(const JsonText& name) {
  const auto found = std::ranges::find_if(kMembers, [&](std::string_view known) { return name.is(known); });
  return static_cast<Member>(found - kMembers.begin());
}

/// Of the path to each value it keeps the depth, the member of the top object, and the innermost key, which
/// is the newest one.
class RequestScan final : public BodyScan {
 public:
  BodyFacts facts;
  std::string twice;  ///< a member that was given twice

  bool key(const JsonText& name) override {
    key_ = name;
    if (!on_top()) return true;
    member_ = member_of(name);
    if (member_ >= Member::prompt) return true;
    const auto bit = 1u << static_cast<unsigned>(member_);
    if ((seen_ & bit) != 0 && twice.empty()) twice = kMembers[static_cast<std::size_t>(member_)];
    seen_ |= bit;
    return true;
  }
  bool boolean(bool value) override {
    if (on_top() && member_ == Member::stream) facts.stream = value;
    return inside();
  }
  bool number(std::string_view digits) override {
    const bool limit = member_ == Member::max_tokens || member_ == Member::max_completion_tokens;
    if (!on_top() || (!limit && member_ != Member::n)) return inside();
    const auto value = unsigned_number(digits);
    if (value && limit) facts.max_tokens = std::max(facts.max_tokens, *value);
    if (value && !limit) facts.choices = std::max<std::uint64_t>(*value, 1);
    return true;
  }
  bool string(const JsonText& value) override {
    if (on_top() && member_ == Member::model) facts.model = value.decoded();
    if (on_top() && member_ == Member::user) facts.user = value.decoded();
    if (depth() == 2 && member_ == Member::metadata && facts.metadata.size() < kMaxMetadataEntries)
      facts.metadata.insert_or_assign(key_.decoded(), value.decoded());
    if (member_ == Member::prompt ||
        (member_ == Member::messages && (key_.is("content") || key_.is("text")))) {
      const auto sum = facts.prompt_chars + value.code_points();
      facts.prompt_chars =
          static_cast<std::uint32_t>(std::min<std::size_t>(sum, std::numeric_limits<std::uint32_t>::max()));
    }
    return inside();
  }

 private:
  Member member_ = Member::other;
  JsonText key_;
  unsigned seen_ = 0;  ///< one bit for each member
};

class AnswerScan final : public BodyScan {
 public:
  explicit AnswerScan(std::string_view list) : list_(list) {}
  AnswerFacts facts;

  bool key(const JsonText& name) override {
    if (!on_top()) return true;
    in_list_ = name.is(list_);
    in_status_ = name.is("status");
    return true;
  }
  bool begin_array() override {
    if (on_top() && in_list_) facts.has_list = true;
    return BodyScan::begin_array();
  }
  bool string(const JsonText& value) override {
    if (on_top() && in_status_) facts.status = value.decoded();
    return inside();
  }

 private:
  const std::string_view list_;
  bool in_list_ = false;
  bool in_status_ = false;
};

}  // namespace

schema::Result<BodyFacts> scan_request_body(std::string_view body) {
  RequestScan scan;
  const bool parsed = scan_json(body, scan);
  // Some parsers take a byte-order mark for nothing and NUL for the end: an engine may see more than that. No
  // JSON has them.
  if (!parsed && (body.starts_with(kByteOrderMark) || body.contains('\0'))) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the body must be plain JSON, without a byte-order mark or NUL bytes");
  }
  if (!scan.twice.empty()) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the body has the member '" + scan.twice + "' twice; it must have it once");
  }
  if (!parsed) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the body must be one JSON object, nested at most 64 deep");
  }
  if (scan.facts.model.empty()) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the body must name the model: {\"model\": \"…\"}");
  }
  return std::move(scan.facts);
}

std::optional<AnswerFacts> scan_answer_body(std::string_view body, std::string_view list) {
  if (body.starts_with(kByteOrderMark)) body.remove_prefix(kByteOrderMark.size());
  body = body.substr(0, body.find('\0'));
  AnswerScan scan(list);
  if (!scan_json(body, scan)) return std::nullopt;
  return std::move(scan.facts);
}

bool is_completion(std::string_view body) {
  const auto facts = scan_answer_body(body, "choices");
  return facts && facts->has_list;
}

}  // namespace driftgate::route
