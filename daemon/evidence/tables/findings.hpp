#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/evidence/verify/difference.hpp"

namespace driftgate::evidence::tables {

/// Whether a value of an entry says the same as a value of a table's JSON. Entries spell some values another
/// way: measured numbers as {"dec", "hex"}, integers beyond 2^53 as hexadecimal text, objects with other keys
/// than theirs as lists of {"name", "value"}. Numbers are compared by their value.
[[nodiscard]] bool says_the_same(const nlohmann::json& in_entry, const nlohmann::json& in_table);

/// An entry of the log, decoded.
struct LogEntry {
  std::int64_t seq = 0;
  std::int64_t time_us = 0;
  std::string kind{};
  std::string actor{};
  nlohmann::json subject{};
  nlohmann::json body{};

  /// "entry 12 (route_desired)"
  [[nodiscard]] std::string name() const;
};

/// Differences between tables and log, each once. The first kMaxListed are kept, all are counted.
class Findings {
 public:
  static constexpr std::size_t kMaxListed = 1'000;

  void add(std::string where, std::string what, bool unfinished = false);

  [[nodiscard]] std::vector<Difference> take();

 private:
  std::vector<Difference> list_;
  std::unordered_set<std::string> known_;
  std::size_t count_ = 0;
};

/// Compares a row of a table with the entry that it was written with. Each column that says something else
/// than the entry is a difference at `where`.
class RowCheck {
 public:
  RowCheck(Findings& findings, std::string where, const LogEntry& entry)
      : findings_(findings), where_(std::move(where)), entry_(entry) {}

  void column(std::string_view column, std::string_view in_table, std::string_view in_log);
  void column(std::string_view column, std::int64_t in_table, std::int64_t in_log);
  /// With the text of a member of the entry's subject, or "".
  void subject(std::string_view column, std::string_view in_table, std::string_view name);
  /// With a member of the entry's body. Entries of older programs may lack it: then nothing is compared.
  void member(std::string_view column, std::string_view in_table, std::string_view name);
  void member(std::string_view column, std::int64_t in_table, std::string_view name);
  /// JSON text in the table with a value of the entry.
  void document(std::string_view column, std::string_view in_table, const nlohmann::json& in_log);
  /// JSON text in the table with a member of the entry's body, if the entry has it.
  void document_member(std::string_view column, std::string_view in_table, std::string_view name);

 private:
  void differs(std::string_view column, std::string_view in_table, std::string_view in_log);

  Findings& findings_;
  const std::string where_;
  const LogEntry& entry_;
};

}  // namespace driftgate::evidence::tables
