#include "daemon/route/http/body_json.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace driftgate::route {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The SAX events of a text, with the path to the value at hand reduced to what is asked for: the depth,
/// the member of the top object, and the key of the innermost object.
class Scan : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return top_level_value(); }
  bool boolean(bool value) override {
    if (depth_ == 1) on_bool(value);
    return top_level_value();
  }
  bool number_integer(number_integer_t) override { return top_level_value(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ == 1) on_unsigned(value);
    return top_level_value();
  }
  bool number_float(number_float_t, const string_t&) override { return top_level_value(); }
  bool string(string_t& value) override {
    on_string(value);
    return top_level_value();
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    if (depth_ == 0) object_ = true;
    return ++depth_ <= kMaxBodyDepth;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return false;
    if (depth_ == 1) on_array();
    return ++depth_ <= kMaxBodyDepth;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    key_ = name;
    if (depth_ != 1) return true;
    member_ = name;
    return on_member(name);
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  [[nodiscard]] bool is_object() const { return object_; }

 protected:
  virtual bool on_member(const std::string&) { return true; }
  virtual void on_bool(bool) {}
  virtual void on_unsigned(std::uint64_t) {}
  virtual void on_string(const std::string&) {}
  virtual void on_array() {}

  int depth_ = 0;
  std::string member_;  ///< of the top object
  std::string key_;     ///< innermost

 private:
  [[nodiscard]] bool top_level_value() const { return depth_ > 0; }
  bool object_ = false;
};

std::size_t code_points(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u; }));
}

class RequestScan final : public Scan {
 public:
  BodyFacts facts;
  std::string twice;  ///< a member that was given twice

 protected:
  bool on_member(const std::string& name) override {
    static constexpr std::array<std::string_view, 7> kRead{
        "model", "user", "stream", "metadata", "max_tokens", "max_completion_tokens", "n"};
    if (std::ranges::find(kRead, name) == kRead.end()) return true;
    if (std::ranges::find(seen_, name) != seen_.end()) {
      twice = name;
      return false;
    }
    seen_.push_back(name);
    return true;
  }
  void on_bool(bool value) override {
    if (member_ == "stream") facts.stream = value;
  }
  void on_unsigned(std::uint64_t value) override {
    if (member_ == "n") facts.choices = std::max<std::uint64_t>(value, 1);
    if (member_ == "max_tokens" || member_ == "max_completion_tokens")
      facts.max_tokens = std::max(facts.max_tokens, value);
  }
  void on_string(const std::string& value) override {
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
  }

 private:
  std::vector<std::string> seen_;
};

class AnswerScan final : public Scan {
 public:
  bool choices = false;

 protected:
  void on_array() override { choices = choices || member_ == "choices"; }
};

}  // namespace

schema::Result<BodyFacts> scan_request_body(std::string_view body) {
  // The parser takes a byte-order mark for nothing and NUL for the end: an engine may see more than that.
  if (body.starts_with(kByteOrderMark) || body.find('\0') != std::string_view::npos) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the body must be plain JSON: no byte-order mark before it and no NUL bytes");
  }
  RequestScan scan;
  const bool parsed = Json::sax_parse(body, &scan);
  if (!scan.twice.empty()) {
    return schema::fail(schema::ErrorCode::invalid_document,
                        "the body gives '" + scan.twice + "' twice; give it once");
  }
  if (!parsed || !scan.is_object()) {
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
  AnswerScan scan;
  return Json::sax_parse(body, &scan) && scan.is_object() && scan.choices;
}

}  // namespace driftgate::route
