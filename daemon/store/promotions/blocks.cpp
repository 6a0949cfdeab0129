#include "daemon/store/promotions/blocks.hpp"

#include <fmt/format.h>

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kInsert{
    "insert block",
    "INSERT INTO blocks(id, checkpoint, kernel, contract, promotion, reason, set_by, set_us, lifted_us, "
    "lifted_by, lift_reason, evidence_seq) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, '', '', ?9)"};
constexpr Sql kLift{"lift block",
                    "UPDATE blocks SET lifted_us = ?4, lifted_by = ?2, lift_reason = ?3, evidence_seq = ?5 "
                    "WHERE id = ?1 AND lifted_us IS NULL"};
constexpr Sql kFind{
    "find block",
    "SELECT id, checkpoint, kernel, contract, promotion, reason, set_by, set_us, lifted_us, lifted_by, "
    "lift_reason, evidence_seq FROM blocks WHERE id = ?1"};
constexpr Sql kInForce{
    "block in force",
    "SELECT id, checkpoint, kernel, contract, promotion, reason, set_by, set_us, lifted_us, lifted_by, "
    "lift_reason, evidence_seq FROM blocks "
    "WHERE checkpoint = ?1 AND kernel = ?2 AND contract = ?3 AND lifted_us IS NULL"};
constexpr Sql kList{
    "list blocks",
    "SELECT id, checkpoint, kernel, contract, promotion, reason, set_by, set_us, lifted_us, lifted_by, "
    "lift_reason, evidence_seq FROM blocks WHERE id > ?1 ORDER BY id LIMIT ?2"};

}  // namespace

Result<bool> insert_block(Tx& tx, const BlockRow& block) {
  auto known = TRY(block_in_force(tx, block.checkpoint, block.kernel, block.contract));
  if (known) return false;
  TRY(explain(tx.run(kInsert, {block.id, block.checkpoint, block.kernel, block.contract, block.promotion,
                               block.reason, block.set_by, block.set_us, block.evidence_seq}),
              fmt::format("the block of kernel '{}' cannot be stored", block.kernel)));
  return true;
}

Result<void> lift_block(Tx& tx, std::string_view id, std::string_view by, std::string_view reason,
                        std::int64_t now_us, std::int64_t evidence_seq) {
  auto known = TRY(must_exist(find_block(tx, id), fmt::format("there is no block {}", id)));
  return must_change(tx.run(kLift, {id, by, reason, now_us, evidence_seq}), ErrorCode::conflict,
                     fmt::format("block {} was lifted by {} already", id, known.lifted_by));
}

Result<std::optional<BlockRow>> find_block(Reader& reader, std::string_view id) {
  return find_row<BlockRow>(reader, kFind, {id});
}

Result<std::optional<BlockRow>> block_in_force(Reader& reader, std::string_view checkpoint,
                                               std::string_view kernel, std::string_view contract) {
  return find_row<BlockRow>(reader, kInForce, {checkpoint, kernel, contract});
}

Result<std::vector<BlockRow>> list_blocks(Reader& reader, std::string_view after, std::int64_t limit) {
  return list_rows<BlockRow>(reader, kList, {after, limit});
}

}  // namespace driftgate::store
