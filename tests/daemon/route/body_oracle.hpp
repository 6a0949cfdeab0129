#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "daemon/route/http/body_json.hpp"
#include "daemon/route/http/json_scan.hpp"

/// The same facts of a body as daemon/route/http/body_json reads, by a parser that shares no code with it.
namespace driftgate::route::oracle {

class Scan final : public nlohmann::json_sax<nlohmann::json> {
 public:
  BodyFacts facts;
  bool choices = false;
  std::string twice;

  bool null() override { return depth_ > 0; }
  bool boolean(bool value) override {
    if (depth_ == 1 && member_ == "stream") facts.stream = value;
    return depth_ > 0;
  }
  bool number_integer(number_integer_t) override { return depth_ > 0; }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ == 1 && member_ == "n") facts.choices = std::max<std::uint64_t>(value, 1);
    if (depth_ == 1 && (member_ == "max_tokens" || member_ == "max_completion_tokens"))
      facts.max_tokens = std::max<std::uint64_t>(facts.max_tokens, value);
    return depth_ > 0;
  }
  bool number_float(number_float_t, const string_t&) override { return depth_ > 0; }
  bool string(string_t& value) override {
    if (depth_ == 1 && member_ == "model") facts.model = value;
    if (depth_ == 1 && member_ == "user") facts.user = value;
    if (depth_ == 2 && member_ == "metadata" && facts.metadata.size() < kMaxMetadataEntries)
      facts.metadata.insert_or_assign(key_, value);
    if (member_ == "prompt" || (member_ == "messages" && (key_ == "content" || key_ == "text"))) {
      const auto points = std::ranges::count_if(
          value, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0u) != 0x80u; });
      const auto sum = facts.prompt_chars + static_cast<std::size_t>(points);
      facts.prompt_chars =
          static_cast<std::uint32_t>(std::min<std::size_t>(sum, std::numeric_limits<std::uint32_t>::max()));
    }
    return depth_ > 0;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return ++depth_ <= kMaxJsonDepth; }
  bool start_array(std::size_t) override {
    if (depth_ == 1 && member_ == "choices") choices = true;
    return depth_ > 0 && ++depth_ <= kMaxJsonDepth;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    key_ = name;
    if (depth_ != 1) return true;
    member_ = name;
    if (kOnce.contains(name) && !seen_.insert(name).second && twice.empty()) twice = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  inline static const std::set<std::string> kOnce{
      "model", "user", "stream", "metadata", "max_tokens", "max_completion_tokens", "n"};
  int depth_ = 0;
  std::string member_;
  std::string key_;
  std::set<std::string> seen_;
};

inline bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

/// True when both readers accept the body, or refuse it for the same reason, and read the same in it.
inline bool agree_on_request(std::string_view body) {
  const auto facts = scan_request_body(body);
  if (body.starts_with("\xef\xbb\xbf") || body.find('\0') != std::string_view::npos) return !facts;
  // What is not UTF-8 is refused before anything else is looked for.
  if (!is_utf8(body)) return !facts;
  Scan scan;
  const bool parsed = nlohmann::json::sax_parse(body, &scan);
  if (parsed && scan.twice.empty() && !scan.facts.model.empty()) return facts && *facts == scan.facts;
  if (facts) return false;
  const bool says_twice = facts.error().message.find("twice") != std::string::npos;
  return says_twice == !scan.twice.empty();
}

inline bool agree_on_answer(std::string_view body) {
  Scan scan;
  return is_completion(body) == (nlohmann::json::sax_parse(body, &scan) && scan.choices);
}

}  // namespace driftgate::route::oracle
