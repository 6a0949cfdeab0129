#include "daemon/evidence/verify/table_checks.hpp"

#include <fmt/format.h>

#include <exception>
#include <set>
#include <string>
#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/tables/parts.hpp"

namespace driftgate::evidence {

using schema::EvidenceKind;
using schema::Result;
using store::Row;
using store::Sql;
using tables::LogView;

namespace {

constexpr std::int64_t kNames = 512;  ///< in one read

constexpr Sql kModels{"names of models", "SELECT name FROM models WHERE name > ?1 ORDER BY name LIMIT ?2"};
constexpr Sql kOpen{"ids of open promotions",
                    "SELECT id FROM promotions WHERE id > ?1 AND state IN ('queued', 'running', 'paused', "
                    "'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing') ORDER BY id LIMIT ?2"};
constexpr Sql kPromotions{"ids of promotions", "SELECT id FROM promotions WHERE id > ?1 ORDER BY id LIMIT ?2"};
constexpr Sql kPromotion{"whether a promotion is stored", "SELECT 1 FROM promotions WHERE id = ?1"};

/// Compares part after part, each in a read transaction of its own.
class Comparison {
 public:
  Comparison(store::Store& store, GoOn go_on) : store_(store), go_on_(std::move(go_on)) {}

  Result<void> live() {
    auto done = models();
    if (done) done = each_of(kOpen, [](LogView& log, const std::string& id) { return check_promotion(log, id); });
    if (done) done = part("the table of tokens", tables::check_tokens);
    if (done) done = part("the table of blocks", tables::check_blocks);
    return done;
  }

  Result<void> rest() {
    auto done = each_of(kPromotions, [](LogView& log, const std::string& id) {
      auto row = check_promotion(log, id);
      return row ? tables::check_promotion_parts(log, id) : row;
    });
    if (done) done = requested();
    if (done) done = part("the table of contracts", tables::check_contracts);
    if (done) done = part("the table of kernels", tables::check_kernels);
    if (done) done = part("the table of engines", tables::check_engines);
    if (done) done = part("the table of schedules", tables::check_schedules);
    if (done) done = fires();
    if (done) done = blobs();
    return done ? columns() : done;
  }

  std::vector<Difference> take() { return findings_.take(); }

 private:
  /// One read transaction. A row that cannot even be read is a difference.
  template <typename F>
  Result<void> part(const std::string& what, F&& compare) {
    if (stopped_ || !go_on_()) {
      stopped_ = true;
      return {};
    }
    return store_.read([&](store::Reader& reader) -> Result<void> {
      LogView log(reader, findings_);
      try {
        return compare(log);
      } catch (const std::exception& error) {
        findings_.add(what, fmt::format("it cannot be read: {}", error.what()));
        return {};
      }
    });
  }

  static Result<void> check_promotion(LogView& log, const std::string& id) {
    return tables::check_promotion(log, id);
  }

  /// The names that `sql` gives, a page in a read, and each name's part in one of its own.
  template <typename F>
  Result<void> each_of(const Sql& sql, F&& compare) {
    std::string after;
    while (!stopped_) {
      auto names = TRY(store_.read([&](store::Reader& reader) {
        return reader.all(sql, {after, kNames}, [](const Row& row) { return row.text(0); });
      }));
      if (names.empty()) return {};
      for (const auto& name : names) {
        auto done = part(fmt::format("the row of {}", name), [&](LogView& log) { return compare(log, name); });
        if (!done) return done;
      }
      after = names.back();
    }
    return {};
  }

  /// Those of the table and those that the log installed.
  Result<void> models() {
    std::set<std::string> installed;
    auto read = part("the log's models", [&](LogView& log) {
      EntryFilter filter;
      filter.kind = EvidenceKind::model_bootstrapped;
      return log.each(filter, [&](const tables::LogEntry& entry) {
        installed.insert(text_at(entry.subject, "model"));
        return true;
      });
    });
    if (!read) return read;
    auto done = each_of(kModels, [&](LogView& log, const std::string& name) {
      installed.erase(name);
      return tables::check_model(log, name);
    });
    for (const auto& name : installed) {
      if (done) done = part("model " + name, [&](LogView& log) { return tables::check_model(log, name); });
    }
    return done;
  }

  /// Promotions that were asked for and are not in the table.
  Result<void> requested() {
    EntryFilter filter;
    filter.kind = EvidenceKind::promotion_requested;
    for (bool more = true; more && !stopped_;) {
      more = false;
      auto done = part("the log's promotions", [&](LogView& log) -> Result<void> {
        std::vector<std::string> ids;
        auto read = log.each(filter, [&](const tables::LogEntry& entry) {
          filter.cursor = entry.seq;
          ids.push_back(text_at(entry.subject, "promotion"));
          more = std::cmp_equal(ids.size(), kNames);
          return !more;
        });
        for (const auto& id : ids) {
          if (!read) break;
          auto row = TRY(log.reader().one(kPromotion, {id}, [](const Row&) { return true; }));
          if (!row) read = tables::check_promotion(log, id);
        }
        return read;
      });
      if (!done) return done;
    }
    return {};
  }

  Result<void> fires() {
    for (auto* compare : {&tables::check_fires, &tables::check_fire_entries}) {
      std::int64_t after = compare == &tables::check_fires ? 0 : -1;
      for (bool more = true; more && !stopped_;) {
        auto done = part("the table of fire times", [&](LogView& log) -> Result<void> {
          auto any = TRY(compare(log, after));
          more = any;
          return {};
        });
        if (!done) return done;
      }
    }
    return {};
  }

  Result<void> blobs() {
    std::string after;
    do {
      auto done = part("the table of blobs", [&](LogView& log) { return tables::check_blobs(log, after); });
      if (!done) return done;
    } while (!after.empty() && !stopped_);
    return {};
  }

  /// Only the blocks that are full when it begins: later ones are of the daemon that compares.
  Result<void> columns() {
    auto size = TRY(store_.read([](store::Reader& reader) { return tree_size(reader); }));
    const auto full = static_cast<std::int64_t>(size) / kIndexBlock;
    std::int64_t postings = 0;
    for (std::int64_t block = 0; block <= full && !stopped_; ++block) {
      auto done = part("the log's columns", [&](LogView& log) -> Result<void> {
        auto made = TRY(tables::check_block(log, block));
        if (block < full) postings += made;
        return {};
      });
      if (!done) return done;
    }
    if (stopped_) return {};
    return part("the log's index",
                [&](LogView& log) { return tables::check_index_size(log, full, postings); });
  }

  store::Store& store_;
  GoOn go_on_;
  tables::Findings findings_;
  bool stopped_ = false;
};

}  // namespace

Result<std::vector<Difference>> compare_live_tables(store::Store& store) {
  Comparison comparison(store, [] { return true; });
  TRY(comparison.live());
  return comparison.take();
}

Result<std::vector<Difference>> compare_all_tables(store::Store& store, const GoOn& go_on) {
  Comparison comparison(store, go_on);
  auto done = comparison.live();
  if (done) done = comparison.rest();
  if (!done) return std::unexpected(std::move(done.error()));
  return comparison.take();
}

}  // namespace driftgate::evidence
