#include "daemon/evidence/tables/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "schema/number_text.hpp"
#include "schema/utf8.hpp"

namespace driftgate::evidence::tables {

using nlohmann::json;

namespace {

constexpr std::size_t kShownBytes = 300;

std::string shown(std::string_view text) {
  return text.empty() ? std::string("nothing") : "'" + schema::utf8_text(text, kShownBytes) + "'";
}

bool numbers_agree(const json& in_entry, const json& in_table) {
  if (in_entry.is_number_integer()) {
    if (in_table.is_number_float()) return in_entry.get<double>() == in_table.get<double>();
    return in_entry == in_table;
  }
  if (in_entry.is_string()) {
    return in_table.is_number_unsigned() &&
           in_entry.get_ref<const std::string&>() == fmt::format("{:016x}", in_table.get<std::uint64_t>());
  }
  if (!in_entry.is_object()) return false;
  const auto number = schema::parse_number_hex(text_at(in_entry, "hex"));
  return number && *number == in_table.get<double>();
}

/// An object whose keys an entry does not allow stands there as a list of {"name", "value"}.
bool pairs_agree(const json& pairs, const json& object) {
  return pairs.size() == object.size() && std::ranges::all_of(pairs, [&](const json& pair) {
           if (!pair.is_object() || !pair.contains("value")) return false;
           const auto found = object.find(text_at(pair, "name"));
           return found != object.end() && says_the_same(pair["value"], *found);
         });
}

bool objects_agree(const json& in_entry, const json& in_table) {
  if (in_entry.is_array()) return pairs_agree(in_entry, in_table);
  if (!in_entry.is_object() || in_entry.size() != in_table.size()) return false;
  return std::ranges::all_of(in_table.items(), [&](const auto& item) {
    const auto found = in_entry.find(item.key());
    return found != in_entry.end() && says_the_same(*found, item.value());
  });
}

}  // namespace

bool says_the_same(const json& in_entry, const json& in_table) {
  if (in_table.is_number()) return numbers_agree(in_entry, in_table);
  // JSON has no number that is not finite: in the table it is the text that a measured number has in "dec".
  if (in_table.is_string() && in_entry.is_object()) return in_table == text_at(in_entry, "dec");
  if (in_table.is_object()) return objects_agree(in_entry, in_table);
  if (!in_table.is_array()) return in_entry == in_table;
  return in_entry.is_array() && std::ranges::equal(in_entry, in_table, says_the_same);
}

std::string LogEntry::name() const {
  return fmt::format("entry {} ({})", seq, kind);
}

void Findings::add(std::string where, std::string what, bool unfinished) {
  Difference found{std::move(where), std::move(what), unfinished};
  if (list_.size() < kMaxListed && !known_.insert(to_text(found)).second) return;
  ++count_;
  if (list_.size() < kMaxListed) list_.push_back(std::move(found));
}

std::vector<Difference> Findings::take() {
  if (count_ > list_.size()) {
    list_.push_back({"tables", fmt::format("{} further differences are not listed", count_ - list_.size())});
  }
  count_ = 0;
  known_.clear();
  return std::exchange(list_, {});
}

void RowCheck::differs(std::string_view column, std::string_view in_table, std::string_view in_log) {
  findings_.add(
      where_, fmt::format("{} is {} in the table, but {} says {}", column, in_table, entry_.name(), in_log));
}

void RowCheck::column(std::string_view column, std::string_view in_table, std::string_view in_log) {
  if (in_table != in_log) differs(column, shown(in_table), shown(in_log));
}

void RowCheck::column(std::string_view column, std::int64_t in_table, std::int64_t in_log) {
  if (in_table != in_log) differs(column, std::to_string(in_table), std::to_string(in_log));
}

void RowCheck::subject(std::string_view column, std::string_view in_table, std::string_view name) {
  this->column(column, in_table, text_at(entry_.subject, name));
}

void RowCheck::member(std::string_view column, std::string_view in_table, std::string_view name) {
  const auto said = base::maybe_text_at(entry_.body, name);
  if (said) this->column(column, in_table, *said);
}

void RowCheck::member(std::string_view column, std::int64_t in_table, std::string_view name) {
  const auto found = entry_.body.find(name);
  if (found == entry_.body.end() || !found->is_number_integer()) return;
  this->column(column, in_table, found->get<std::int64_t>());
}

void RowCheck::document(std::string_view column, std::string_view in_table, const json& in_log) {
  const auto parsed = json::parse(in_table, nullptr, false);
  if (!parsed.is_discarded() && says_the_same(in_log, parsed)) return;
  differs(column, shown(in_table), shown(in_log.dump(-1, ' ', false, json::error_handler_t::replace)));
}

void RowCheck::document_member(std::string_view column, std::string_view in_table, std::string_view name) {
  const auto found = entry_.body.find(name);
  if (found != entry_.body.end()) document(column, in_table, *found);
}

}  // namespace driftgate::evidence::tables
