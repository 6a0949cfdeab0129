#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "schema/document/document_node.hpp"

namespace driftgate::schema::detail {
namespace {

using Kind = DocumentNode::Kind;

SourcePosition position_of(const YAML::Mark& mark) {
  if (mark.line < 0) return {};
  return {static_cast<std::uint32_t>(mark.line) + 1, static_cast<std::uint32_t>(mark.column) + 1};
}

[[noreturn]] void refuse(const YAML::Mark& mark, std::string message) {
  throw Refused{{position_of(mark), "", std::move(message)}};
}

// Builds the tree from events and refuses what may not stand in it as soon as it is seen.
class TreeBuilder final : public YAML::EventHandler {
 public:
  [[nodiscard]] std::optional<DocumentNode>& root() { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "", anchor);
    DocumentNode node;
    node.position = position_of(mark);
    add(mark, std::move(node), true);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "found an alias; aliases are not accepted, write the value out");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    refuse(mark,
           fmt::format("found the anchor \"&{}\"; anchors are not accepted, write the value out", name));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    DocumentNode node;
    node.kind = Kind::text;
    node.position = position_of(mark);
    node.text = value;
    const bool plain = tag != "!";
    if (plain && !expects_key()) resolve_plain_scalar(node);
    if (plain && expects_key() && value == "<<") refuse(mark, "found a merge key; write the fields out");
    add(mark, std::move(node), false);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::mapping);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    DocumentNode node;
    std::optional<DocumentNode> key;
  };

  [[nodiscard]] bool expects_key() const {
    return !levels_.empty() && levels_.back().node.kind == Kind::mapping && !levels_.back().key;
  }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse(mark, "found an anchor; anchors are not accepted");
    // yaml-cpp gives "?" to plain values without a tag and "!" to quoted ones.
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark,
             fmt::format("found the tag \"{}\"; tags are not accepted, quote a value to make it text", tag));
    }
    if (++nodes_ > kMaxDocumentNodes) {
      refuse(mark, fmt::format("the document has more than {} values", kMaxDocumentNodes));
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Kind kind) {
    check(mark, tag, anchor);
    if (expects_key()) refuse(mark, "found a list or mapping as a key; keys are plain names");
    if (levels_.size() >= kMaxDocumentDepth) {
      refuse(mark, fmt::format("more than {} levels of nesting", kMaxDocumentDepth));
    }
    Level level;
    level.node.kind = kind;
    level.node.position = position_of(mark);
    levels_.push_back(std::move(level));
  }

  void close() {
    DocumentNode node = std::move(levels_.back().node);
    levels_.pop_back();
    attach(std::move(node));
  }

  void add(const YAML::Mark& mark, DocumentNode node, bool is_null) {
    if (!expects_key()) return attach(std::move(node));
    if (is_null) refuse(mark, "found an empty key; keys are plain names");
    Level& level = levels_.back();
    const auto same = [&](const DocumentNode::Member& member) { return member.key == node.text; };
    const auto& members = level.node.members;
    if (const auto it = std::find_if(members.begin(), members.end(), same); it != members.end()) {
      refuse(mark, fmt::format("the key \"{}\" appears twice in this mapping; it first appeared on line {}",
                               node.text, it->position.line));
    }
    level.key = std::move(node);
  }

  void attach(DocumentNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == Kind::list) {
      level.node.items.push_back(std::move(node));
      return;
    }
    level.node.members.push_back({std::move(level.key->text), level.key->position, std::move(node)});
    level.key.reset();
  }

  std::vector<Level> levels_;
  std::size_t nodes_ = 0;
  std::optional<DocumentNode> root_;
};

// Sees that a second document follows, without reading it.
class SecondDocument final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    refuse(mark, "a second document follows; a file holds one contract");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

}  // namespace

DocumentNode read_yaml(std::string_view text) {
  // yaml-cpp 0.7 takes the end of the text for the closing quote when it comes right after a line
  // break; a comment there makes it see that the quote is missing.
  std::istringstream stream(std::string(text) + (text.ends_with('\n') ? "#" : ""));
  TreeBuilder builder;
  try {
    YAML::Parser parser(stream);
    const bool found = parser.HandleNextDocument(builder);
    if (!found || !builder.root()) throw Refused{{{1, 1}, "", "the document is empty"}};
    SecondDocument second;
    parser.HandleNextDocument(second);
  } catch (const YAML::Exception& fault) {
    throw Refused{{position_of(fault.mark), "", "this is not valid YAML: " + fault.msg}};
  }
  return std::move(*builder.root());
}

}  // namespace driftgate::schema::detail
