#include "schema/document/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schema/json.hpp"

namespace driftgate::schema {

using Kind = DocumentNode::Kind;

void Cursor::refuse(std::string message) const {
  faults.push_back({node.position, pointer, std::move(message)});
}

void Cursor::refuse_kind(std::string_view allowed) const {
  refuse(fmt::format("found {}; allowed: {}", describe(node), allowed));
}

Fields::Fields(const Cursor& at, std::string what) : at_(at), what_(std::move(what)) {
  if (at.node.kind != Kind::mapping) at.refuse_kind("a mapping of fields, for " + what_);
}

std::optional<Cursor> Fields::find(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.push_back(name);
  for (const auto& member : at_.node.members) {
    if (member.key == name) return Cursor{member.value, at_.pointer + "/" + pointer_token(name), at_.faults};
  }
  return std::nullopt;
}

std::optional<Cursor> Fields::need(std::string_view name) {
  auto found = find(name);
  if (!found && at_.node.kind == Kind::mapping) {
    at_.refuse(fmt::format("the field \"{}\" of {} is missing", name, what_));
  }
  return found;
}

void Fields::finish() {
  for (const auto& member : at_.node.members) {
    if (std::find(known_.begin(), known_.end(), member.key) != known_.end()) continue;
    at_.faults.push_back(
        {member.position, at_.pointer + "/" + pointer_token(member.key),
         fmt::format("{} has no field \"{}\"{}", what_, member.key, allowed_names(member.key, known_))});
  }
}

namespace {

// Optimal string alignment: insert, delete, replace and swap of neighbours cost one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view text, std::span<const std::string_view> names) {
  constexpr std::size_t kLongestCompared = 64;
  if (text.empty() || text.size() > kLongestCompared) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t distance = edit_distance(text, name);
    if (distance < best_distance && distance < name.size()) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string allowed_names(std::string_view found, std::span<const std::string_view> names) {
  std::string text = fmt::format("; allowed: {}", fmt::join(names, ", "));
  if (const auto near = nearest_name(found, names)) text += fmt::format("; did you mean \"{}\"?", *near);
  return text;
}

std::string describe(const DocumentNode& node) {
  constexpr std::size_t kLongestQuoted = 60;
  switch (node.kind) {
    case Kind::null:
      return "nothing";
    case Kind::boolean:
      return node.flag ? "true" : "false";
    case Kind::number:
      return "the number " + node.text;
    case Kind::text: {
      if (node.text.size() <= kLongestQuoted) return fmt::format("the text \"{}\"", node.text);
      std::size_t end = kLongestQuoted;
      while (end > 0 && (static_cast<unsigned char>(node.text[end]) & 0xC0) == 0x80) --end;
      return fmt::format("a text that begins \"{}…\"", node.text.substr(0, end));
    }
    case Kind::list:
      return "a list";
    case Kind::mapping:
      return "a mapping";
  }
  return "nothing";
}

}  // namespace driftgate::schema
