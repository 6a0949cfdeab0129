#include "daemon/route/http/body_json.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace driftgate::route {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u; }));
}

/// Reads the SAX events of a body, a request or an answer; of the path to each value it keeps the depth, the
/// member of the top object, and the key of the innermost object.
class Scan final : public nlohmann::json_sax<Json> {
 public:
  BodyFacts facts;
  bool choices = false;  ///< there is an array of that name
  std::string twice;     ///< a member that was given twice

  bool null() override { return inside(); }
  bool boolean(bool value) override {
    if (depth_ == 1 && member_ == "stream") facts.stream = value;
    return inside();
  }
  bool number_integer(number_integer_t) override { return inside(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ == 1 && member_ == "n") facts.choices = std::max<std::uint64_t>(value, 1);
    if (depth_ == 1 && (member_ == "max_tokens" || member_ == "max_completion_tokens"))
      facts.max_tokens = std::max(facts.max_tokens, value);
    return inside();
  }
  bool number_float(number_float_t, const string_t&) override { return inside(); }
  bool string(string_t& value) override {
    if (depth_ == 1 && member_ == "model") facts.model = value;
    if (depth_ == 1 && member_ == "user") facts.user = value;
    if (depth_ == 2 && member_ == "metadata" && facts.metadata.size() < kMaxMetadataEntries) {
      facts.metadata.insert_or_assign(key_, value);
    }
    if (member_ == "prompt" || (member_ == "messages" && (key_ == "content" || key_ == "text"))) {
      const auto sum = facts.prompt_chars + code_points(value);
      facts.prompt_chars =
          static_cast<std::uint32_t>(std::min<std::size_t>(sum, std::numeric_limits<std::uint32_t>::max()));
    }
    return inside();
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return ++depth_ <= kMaxBodyDepth; }
  bool start_array(std::size_t) override {
    if (depth_ == 1 && member_ == "choices") choices = true;
    return inside() && ++depth_ <= kMaxBodyDepth;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    key_ = name;
    if (depth_ == 1) member_ = name;
    const bool read = depth_ == 1 && std::ranges::find(kRead, name) != kRead.end();
    if (read && !seen_.insert(name).second && twice.empty()) twice = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr std::array<std::string_view, 7> kRead{
      "model", "user", "stream", "metadata", "max_tokens", "max_completion_tokens", "n"};

  /// False for a value that is not within the one object that a body must be.
  [[nodiscard]] bool inside() const { return depth_ > 0; }

  int depth_ = 0;
  std::string member_;  ///< of the top object
  std::string key_;     ///< innermost
  std::set<std::string> seen_;
};

}  // namespace

schema::Result<BodyFacts> scan_request_body(std::string_view body) {
  // The parser takes a byte-order mark for nothing and NUL for the end: an engine may see more than that.
  if (body.starts_with(kByteOrderMark) || body.find('\0') != std::string_view::npos) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the body must be plain JSON, without a byte-order mark or NUL bytes");
  }
  Scan scan;
  const bool parsed = Json::sax_parse(body, &scan);
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

bool is_completion(std::string_view body) {
  Scan scan;
  return Json::sax_parse(body, &scan) && scan.choices;
}

}  // namespace driftgate::route
