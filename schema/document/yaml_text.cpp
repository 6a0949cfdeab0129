#include "schema/document/yaml_text.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/document/document_node.hpp"
#include "schema/json.hpp"

namespace driftgate::schema {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kWidth = 110;

// clang-format off
/// The usual order of the members of a contract, whatever mapping they are in.
constexpr auto kOrder = std::to_array<std::string_view>(
    {"apiVersion", "kind", "metadata", "kernels", "assumptions", "measurement", "slices", "numerical",
     "statistical", "runtime", "observability", "stages", "guard", "confidence", "escalation", "name",
     "description", "owners", "id", "train", "inf", "fallback", "ref", "reward", "policy", "max_tokens",
     "swings", "dimensions", "min_sequences", "critical", "discover", "metric", "bound", "signal",
     "outcome", "exact", "aggregate", "horizon", "over", "clip", "min", "max", "max_ratio", "max_delta",
     "shadow-runtime", "canary", "steps", "share", "approval", "soak", "bake", "mirror_share",
     "min_duration", "max_duration", "rules", "match", "stage", "severity", "slice", "action", "defaults",
     "hard", "soft", "recovery", "alpha", "alpha_harm", "alpha_advance", "freeze_after", "revert_after"});
// clang-format on

using Member = std::pair<std::string, const Json*>;

std::vector<Member> ordered(const Json& object) {
  std::vector<Member> members;
  for (const auto& [key, value] : object.items()) members.emplace_back(key, &value);
  // Of a contract these are sections, of a clause they say at the end where it holds.
  const auto closes_clause = [is_clause = object.contains("id")](const std::string& name) {
    return is_clause && (name == "slices" || name == "stages");
  };
  const auto place = [&closes_clause](const Member& member) {
    const auto usual = std::ranges::find(kOrder, member.first) - kOrder.begin();
    return closes_clause(member.first) ? std::ssize(kOrder) : usual;
  };
  std::ranges::stable_sort(members, {}, place);  // nlohmann's objects are sorted by name
  return members;
}

bool has_only_plain_characters(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@/- ";
  const bool begins =
      !text.empty() && std::string_view("_.@/- ").find(text.front()) == std::string_view::npos;
  return begins && text.back() != ' ' && text.find_first_not_of(kPlain) == std::string_view::npos;
}

/// Whether YAML reads the text back without quotes: by its core schema, and by older rules too.
bool is_plain(const std::string& text) {
  constexpr auto kOldBooleans = std::to_array<std::string_view>({"y", "n", "yes", "no", "on", "off"});
  if (!has_only_plain_characters(text)) return false;
  std::string lower = text;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (std::ranges::find(kOldBooleans, lower) != kOldBooleans.end()) return false;
  DocumentNode node;
  node.text = text;
  try {
    detail::resolve_plain_scalar(node);
  } catch (const detail::Refused&) {
    return false;
  }
  return node.kind == DocumentNode::Kind::text;
}

std::string quoted(const std::string& text) {
  return is_plain(text) ? text : Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// On one line.
std::string flow(const Json& value) {
  if (value.is_string()) return quoted(value.get_ref<const std::string&>());
  if (!value.is_structured()) return canonical_json(value);
  std::string text;
  if (value.is_array()) {
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + flow(item);
    return "[" + text + "]";
  }
  for (const auto& [key, member] : ordered(value))
    text += (text.empty() ? "" : ", ") + quoted(key) + ": " + flow(*member);
  return "{" + text + "}";
}

/// Below `indent` columns; `out` may already hold the "- " that the first line stands behind.
void block(const Json& value, std::size_t indent, std::string& out);

/// The value behind "key:" or "-", on the same line if it fits.
void put_value(const Json& value, std::size_t indent, bool always_list, std::string& out) {
  const std::string line = flow(value);
  const bool empty = !value.is_structured() || value.empty();
  if (empty || (!always_list && indent + line.size() <= kWidth)) {
    out += " " + line + "\n";
    return;
  }
  out += "\n";
  block(value, indent + 2, out);
}

void put_items(const Json& list, std::size_t indent, std::string& out) {
  for (const Json& item : list) {
    const std::string line = flow(item);
    if (!item.is_object() || item.empty() || indent + line.size() + 2 <= kWidth) {
      out += std::string(indent, ' ') + "- " + line + "\n";
      continue;
    }
    std::string text;
    block(item, indent + 2, text);
    text[indent] = '-';
    out += text;
  }
}

void block(const Json& value, std::size_t indent, std::string& out) {
  if (value.is_array()) return put_items(value, indent, out);
  for (const auto& [key, member] : ordered(value)) {
    const std::string name = quoted(key);
    out += std::string(indent, ' ') + name + ":";
    put_value(*member, indent, member->is_array() && indent == 0, out);
  }
}

}  // namespace

std::string yaml_text(const Json& document) {
  std::string out;
  if (!document.is_structured() || document.empty()) return flow(document) + "\n";
  block(document, 0, out);
  return out;
}

}  // namespace driftgate::schema
