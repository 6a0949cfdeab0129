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
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

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
    TRY(models());
    TRY(each_of(kOpen, tables::check_promotion));
    TRY(part("the table of tokens", tables::check_tokens));
    return part("the table of blocks", tables::check_blocks);
  }

  Result<void> rest() {
    TRY(each_of(kPromotions, [](LogView& log, const std::string& id) -> Result<void> {
      TRY(tables::check_promotion(log, id));
      return tables::check_promotion_parts(log, id);
    }));
    TRY(requested());
    TRY(part("the table of contracts", tables::check_contracts));
    TRY(part("the table of kernels", tables::check_kernels));
    TRY(part("the table of engines", tables::check_engines));
    TRY(part("the table of what engines ask for", tables::check_engine_access));
    TRY(part("the table of schedules", tables::check_schedules));
    TRY(part("the table of recipes", tables::check_recipes));
    TRY(fires(tables::check_fires, 0));
    TRY(fires(tables::check_fire_entries, -1));
    TRY(blobs());
    return index();
  }

  /// Only the blocks that are full when it begins: later ones are of the daemon that compares.
  Result<void> index() {
    const auto size = TRY(store_.read([](store::Reader& reader) { return tree_size(reader); }));
    const auto full = static_cast<std::int64_t>(size) / kIndexBlock;
    std::int64_t rows = 0;
    for (std::int64_t block = 0; block <= full && !stopped_; ++block) {
      TRY(part("the log's index", [&](LogView& log) -> Result<void> {
        const auto made = TRY(tables::check_block(log, block));
        if (block < full) rows += made;
        return {};
      }));
    }
    if (stopped_) return {};
    return part("the log's index", [&](LogView& log) { return tables::check_index_size(log, full, rows); });
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

  /// The names that `sql` gives, a page in a read, and each name's part in one of its own.
  template <typename F>
  Result<void> each_of(const Sql& sql, F&& compare) {
    std::string after;
    while (!stopped_) {
      auto names = TRY(store_.read([&](store::Reader& reader) {
        return list_rows<std::string>(reader, sql, {after, kNames});
      }));
      if (names.empty()) return {};
      for (const auto& name : names) {
        TRY(part(fmt::format("the row of {}", name), [&](LogView& log) { return compare(log, name); }));
      }
      after = names.back();
    }
    return {};
  }

  /// Those of the table and those that the log installed.
  Result<void> models() {
    std::set<std::string> installed;
    TRY(part("the log's models", [&](LogView& log) {
      return log.each({.kind = EvidenceKind::model_bootstrapped}, [&](const tables::LogEntry& entry) {
        installed.insert(text_at(entry.subject, "model"));
        return true;
      });
    }));
    TRY(each_of(kModels, [&](LogView& log, const std::string& name) {
      installed.erase(name);
      return tables::check_model(log, name);
    }));
    for (const auto& name : installed) {
      TRY(part("model " + name, [&](LogView& log) { return tables::check_model(log, name); }));
    }
    return {};
  }

  /// Promotions that were asked for and are not in the table.
  Result<void> requested() {
    EntryFilter filter{.kind = EvidenceKind::promotion_requested};
    for (bool more = true; more && !stopped_;) {
      auto left = kNames;
      TRY(part("the log's promotions", [&](LogView& log) {
        return log.each(filter, [&](const tables::LogEntry& entry) -> Result<bool> {
          filter.cursor = entry.seq;
          const auto id = text_at(entry.subject, "promotion");
          const auto row = TRY(find_row<std::int64_t>(log.reader(), kPromotion, {id}));
          if (!row) {
            TRY(tables::check_promotion(log, id));
          }
          return --left > 0;
        });
      }));
      more = left == 0;
    }
    return {};
  }

  /// A page of fire times in each read; `compare` sets `after` and returns whether there may be more.
  template <typename F>
  Result<void> fires(F&& compare, std::int64_t after) {
    for (bool more = true; more && !stopped_;) {
      TRY(part("the table of fire times", [&](LogView& log) -> Result<void> {
        const bool again = TRY(compare(log, after));
        more = again;
        return {};
      }));
    }
    return {};
  }

  Result<void> blobs() {
    std::string after;
    do {
      TRY(part("the table of blobs", [&](LogView& log) { return tables::check_blobs(log, after); }));
    } while (!after.empty() && !stopped_);
    return {};
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
  TRY(comparison.live());
  TRY(comparison.rest());
  return comparison.take();
}

Result<std::vector<Difference>> compare_index(store::Store& store) {
  Comparison comparison(store, [] { return true; });
  TRY(comparison.index());
  return comparison.take();
}

Result<void> verify_search(store::Store& store) {
  const auto found = TRY(compare_index(store));
  if (found.empty()) return {};
  return schema::failf(schema::ErrorCode::corrupt, "{}, so that queries may miss entries: restore a backup",
                       to_text(found.front()));
}

}  // namespace driftgate::evidence
