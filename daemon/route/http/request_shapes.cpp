#include "daemon/route/http/request_shapes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "daemon/route/http/body_scan.hpp"

namespace driftgate::route {
namespace {

constexpr std::array<std::string_view, 2> kOfResponses{"instructions", "input"};
constexpr std::array<std::string_view, 1> kOfMessages{"system"};
constexpr std::array<std::string_view, 1> kOfEmbeddings{"input"};

/// Adds up the text of some members of the top object: their strings, those of their arrays, and what is
/// called `content` or `text` below them.
class TextScan final : public BodyScan {
 public:
  explicit TextScan(std::span<const std::string_view> members) : members_(members) {}
  std::size_t chars = 0;

  bool begin_object() override {
    if (on_top()) in_list_ = false;
    return BodyScan::begin_object();
  }
  bool begin_array() override {
    if (on_top()) in_list_ = true;
    return BodyScan::begin_array();
  }
  bool key(const JsonText& name) override {
    key_ = name;
    if (on_top())
      wanted_ = std::ranges::any_of(members_, [&](std::string_view member) { return name.is(member); });
    return true;
  }
  bool string(const JsonText& value) override {
    const bool direct = on_top() || (depth() == 2 && in_list_);
    if (wanted_ && (direct || key_.is("content") || key_.is("text"))) chars += value.code_points();
    return inside();
  }

 private:
  const std::span<const std::string_view> members_;
  JsonText key_;          ///< the innermost one, which is the newest
  bool wanted_ = false;   ///< within one of the members
  bool in_list_ = false;  ///< within an array of the top object
};

/// `body` has been read before: it is one JSON object within the limits.
void add_prompt(std::string_view body, std::span<const std::string_view> members, BodyFacts& facts) {
  TextScan scan(members);
  (void)scan_json(body, scan);
  const auto sum = facts.prompt_chars + scan.chars;
  facts.prompt_chars =
      static_cast<std::uint32_t>(std::min<std::size_t>(sum, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

void read_shape(ApiShape shape, std::string_view body, BodyFacts& facts) {
  switch (shape) {
    case ApiShape::response:
      return add_prompt(body, kOfResponses, facts);
    case ApiShape::embedding:
      facts.stream = false;
      return add_prompt(body, kOfEmbeddings, facts);
    case ApiShape::message: {
      const auto user = facts.metadata.find("user_id");
      if (user != facts.metadata.end()) {
        facts.user = user->second;
        facts.metadata.erase(user);
      }
      return add_prompt(body, kOfMessages, facts);
    }
    case ApiShape::completion:
    case ApiShape::unread:
      return;
  }
}

}  // namespace driftgate::route
