#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_set>
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

  void add(std::string where, std::string what);

  /// A difference unless the table's value of `column` is what the entry says.
  void column(const std::string& where, std::string_view column, std::string_view in_table,
              std::string_view in_log, const LogEntry& entry);
  void column(const std::string& where, std::string_view column, std::int64_t in_table, std::int64_t in_log,
              const LogEntry& entry);
  /// The same of a text member of the entry's body; nothing when the entry does not have it, as entries of
  /// older programs.
  void member(const std::string& where, std::string_view column, std::string_view in_table,
              const LogEntry& entry, std::string_view name);
  void member(const std::string& where, std::string_view column, std::int64_t in_table, const LogEntry& entry,
              std::string_view name);
  /// The same of a table's JSON text and an entry's value.
  void document(const std::string& where, std::string_view column, std::string_view in_table,
                const nlohmann::json& in_log, const LogEntry& entry);

  [[nodiscard]] std::vector<Difference> take();

 private:
  std::vector<Difference> list_;
  std::unordered_set<std::string> known_;
  std::size_t count_ = 0;
};

}  // namespace driftgate::evidence::tables
