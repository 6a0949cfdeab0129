#include "daemon/evidence/verify/verify_search.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/log.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;

namespace {

constexpr Sql kRows{"entries with their columns",
                    "SELECT seq, bytes, time_us, kind, actor, model, promotion, stage, checkpoint, contract, "
                    "clause, verdict FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
// As queries walk it: a damaged cell can be found by its value and still lead to another entry.
constexpr Sql kOfPromotion{"entries by promotion",
                           "SELECT seq FROM entries INDEXED BY entries_by_promotion "
                           "WHERE promotion = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq"};
constexpr Sql kPlaces{"places of a value",
                      "SELECT p.places FROM index_keys k JOIN postings p ON p.key = k.id "
                      "WHERE k.field = ?1 AND k.value = ?2 AND p.block = ?3"};
constexpr Sql kTimes{"times of a block", "SELECT min_us, max_us FROM index_blocks WHERE block = ?1"};

std::unexpected<schema::Error> differs(std::int64_t seq, std::string_view what) {
  return schema::fail(schema::ErrorCode::corrupt,
                      fmt::format("evidence entry {}: {} does not follow from its bytes, so that queries may "
                                  "miss it; restore a backup",
                                  seq, what));
}

std::optional<std::string> body_text(const schema::EntryDraft& draft, std::string_view key) {
  const auto found = draft.body.find(key);
  if (found == draft.body.end() || found->second.text() == nullptr) return std::nullopt;
  return *found->second.text();
}

/// One block of the index: checks its entries' columns and collects what the index must say of them.
class BlockCheck {
 public:
  BlockCheck(Reader& reader, std::int64_t block) : reader_(reader), block_(block) {}

  Result<void> run(bool indexed) {
    Result<void> checked;
    const auto first = block_ * kIndexBlock;
    auto done = reader_.each(kRows, {first, first + kIndexBlock}, [&](const Row& row) {
      checked = entry(row);
      return checked.has_value();
    });
    if (done && !checked) done = std::move(checked);
    if (done) done = promotions();
    return done && indexed ? index() : done;
  }

 private:
  Result<void> entry(const Row& row) {
    const auto seq = row.integer(0);
    const auto decoded = schema::decode_entry(row.text(1));
    if (!decoded) return differs(seq, decoded.error().message);
    const auto& draft = decoded->draft;
    const auto& subject = draft.subject;
    if (row.integer(2) != draft.time_us) return differs(seq, "its time");
    first_us_ = std::min(first_us_.value_or(draft.time_us), draft.time_us);
    last_us_ = std::max(last_us_, draft.time_us);
    const std::pair<IndexField, std::optional<std::string>> columns[] = {
        {IndexField::kind, std::string(schema::to_string(draft.kind))},
        {IndexField::actor, draft.actor},
        {IndexField::model, subject.model},
        {IndexField{}, subject.promotion},  // it has an index of its own
        {IndexField::stage, subject.stage},
        {IndexField::checkpoint, subject.checkpoint},
        {IndexField::contract, subject.contract},
        {IndexField::clause, body_text(draft, "clause")},
        {IndexField::verdict, body_text(draft, "verdict")}};
    int column = 3;
    for (const auto& [field, value] : columns) {
      const auto stored = row.is_null(column) ? std::nullopt : std::optional(row.text(column));
      ++column;
      if (stored != value) return differs(seq, "a column");
      if (value && field != IndexField{}) {
        places_[{field, *value}].set(static_cast<std::size_t>(seq - block_ * kIndexBlock));
      }
    }
    if (subject.promotion) of_promotions_[*subject.promotion].push_back(seq);
    return {};
  }

  /// Outside the rows of `entry`, since a statement cannot run inside another's rows on all connections.
  Result<void> promotions() {
    const auto first = block_ * kIndexBlock;
    for (const auto& [promotion, seqs] : of_promotions_) {
      std::vector<std::int64_t> found;
      auto done = reader_.each(kOfPromotion, {promotion, first, first + kIndexBlock}, [&](const Row& row) {
        found.push_back(row.integer(0));
        return true;
      });
      if (!done) return done;
      if (found != seqs) return differs(seqs.front(), fmt::format("the index of promotion '{}'", promotion));
    }
    return {};
  }

  Result<void> index() {
    for (const auto& [key, places] : places_) {
      auto stored = TRY(reader_.one(kPlaces, {static_cast<std::int64_t>(key.first), key.second, block_},
                                    [](const Row& row) { return row.text(0); }));
      auto decoded = TRY(stored ? decode_places(*stored) : Result<Places>(Places{}));
      if (decoded != places)
        return differs(block_ * kIndexBlock, fmt::format("the index of '{}'", key.second));
    }
    auto times = reader_.one(kTimes, {block_},
                             [](const Row& row) { return std::pair(row.integer(0), row.integer(1)); });
    if (!times) return std::unexpected(std::move(times.error()));
    if (!*times || **times != std::pair(first_us_.value_or(0), last_us_)) {
      return differs(block_ * kIndexBlock, "the times of its block");
    }
    return {};
  }

  Reader& reader_;
  const std::int64_t block_;
  std::map<std::pair<IndexField, std::string>, Places> places_;
  std::map<std::string, std::vector<std::int64_t>> of_promotions_;  ///< ascending
  std::optional<std::int64_t> first_us_;
  std::int64_t last_us_ = 0;
};

}  // namespace

Result<void> verify_search(store::Store& store) {
  std::int64_t blocks = 1, indexed = 0;
  for (std::int64_t block = 0; block < blocks; ++block) {
    auto done = store.read([&](Reader& reader) -> Result<void> {
      auto size = TRY(tree_size(reader));
      auto full = indexed_size(reader);
      if (!full) return std::unexpected(std::move(full.error()));
      blocks = (static_cast<std::int64_t>(size) + kIndexBlock - 1) / kIndexBlock;
      indexed = *full / kIndexBlock;
      if (indexed != static_cast<std::int64_t>(size) / kIndexBlock) {
        return schema::fail(schema::ErrorCode::corrupt,
                            "the index of the evidence log does not cover its full blocks; restore a backup");
      }
      return BlockCheck(reader, block).run(block < indexed);
    });
    if (!done) return done;
  }
  return {};
}

}  // namespace driftgate::evidence
