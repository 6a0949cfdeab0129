#include <cctype>
#include <nlohmann/json.hpp>

#include "schema/document/document_node.hpp"

namespace driftgate::schema::detail {
namespace {

using Kind = DocumentNode::Kind;

// nlohmann's events carry no positions. The text was checked before, so this only walks it: depth is
// bounded and every token is well formed.
class JsonWalker {
 public:
  explicit JsonWalker(std::string_view text) : text_(text) {}

  DocumentNode value() {
    skip_space();
    DocumentNode node;
    node.position = {line_, column_};
    switch (text_[at_]) {
      case '{':
        read_mapping(node);
        break;
      case '[':
        read_list(node);
        break;
      case '"':
        node.kind = Kind::text;
        node.text = string();
        break;
      default:
        node.text = word();
        resolve_plain_scalar(node);
    }
    return node;
  }

 private:
  void step() {
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 1;
    } else if ((static_cast<unsigned char>(text_[at_]) & 0xC0) != 0x80) {
      ++column_;
    }
    ++at_;
  }
  void skip_space() {
    while (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n') step();
  }
  std::string string() {
    const std::size_t begin = at_;
    step();
    while (text_[at_] != '"') {
      if (text_[at_] == '\\') step();
      step();
    }
    step();
    return nlohmann::json::parse(text_.substr(begin, at_ - begin)).get<std::string>();
  }
  std::string word() {
    const std::size_t begin = at_;
    const auto in_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
    };
    while (at_ < text_.size() && in_word(text_[at_])) step();
    return std::string(text_.substr(begin, at_ - begin));
  }
  // True when another element follows, false at `end`; steps over the comma or the end.
  bool more(char end) {
    skip_space();
    if (text_[at_] == ',') step();
    skip_space();
    if (text_[at_] != end) return true;
    step();
    return false;
  }
  void read_mapping(DocumentNode& node) {
    node.kind = Kind::mapping;
    step();
    while (more('}')) {
      DocumentNode::Member member;
      member.position = {line_, column_};
      member.key = string();
      skip_space();
      step();  // the colon
      member.value = value();
      node.members.push_back(std::move(member));
    }
  }
  void read_list(DocumentNode& node) {
    node.kind = Kind::list;
    step();
    while (more(']')) node.items.push_back(value());
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1, column_ = 1;
};

}  // namespace

DocumentNode read_checked_json(std::string_view text) {
  return JsonWalker(text).value();
}

}  // namespace driftgate::schema::detail
