#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/promotions/blocks.hpp"

namespace driftgate::pipeline {
namespace {

std::string day_of(std::int64_t time_us) {
  const std::chrono::sys_time<std::chrono::seconds> at{std::chrono::seconds(time_us / 1'000'000)};
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", at);
}

}  // namespace

schema::Result<void> put_block(store::Tx& tx, Entries& entries, const Facts& facts,
                               const Change::Block& wanted) {
  const auto& live = facts.live;
  store::BlockRow block;
  block.id = wanted.id;
  block.checkpoint = live.candidate.checkpoint;
  block.kernel = live.candidate.kernel;
  block.contract = live.row.contract;
  block.promotion = live.row.id;
  block.reason = wanted.order.reason;
  block.set_by = kDaemonActor;
  block.set_us = facts.now_us;
  auto known = TRY(store::block_in_force(tx, block.checkpoint, block.kernel, block.contract));
  if (known) return {};
  auto seq = TRY(entries.add(tx, draft(facts, schema::EvidenceKind::block_set, {},
                                       {{"block", block.id},
                                        {"kernel", block.kernel},
                                        {"clause", wanted.order.clause},
                                        {"slice", schema::slice_text(wanted.order.where)},
                                        {"rule", wanted.order.rule},
                                        {"reason", wanted.order.reason}})));
  block.evidence_seq = seq;
  TRY(store::insert_block(tx, block));
  return {};
}

}  // namespace driftgate::pipeline

namespace driftgate::pipeline::people {

Done refuse_blocked(store::Reader& reader, const std::string& checkpoint, const std::string& kernel,
                    const std::string& contract) {
  auto block = TRY(store::block_in_force(reader, checkpoint, kernel, contract));
  if (!block) return {};
  const auto& row = *block;
  return schema::fail(
      schema::ErrorCode::conflict,
      fmt::format(
          "kernel {} on checkpoint {} may not be promoted under this contract: {} blocked it on {} in "
          "promotion {}: {} An operator lifts it by `driftgate block lift {} --reason …`",
          row.kernel, row.checkpoint, row.set_by, day_of(row.set_us), row.promotion, row.reason, row.id),
      "/engine");
}

Done lift_block(Context& context, const std::string& actor, const std::string& id,
                const std::string& reason) {
  return context.commit_rows("lift block", [&](store::Tx& tx, Entries& entries) -> Done {
    auto block = TRY(store::find_block(tx, id));
    if (!block) return schema::fail(schema::ErrorCode::not_found, fmt::format("there is no block {}", id));
    const auto seq =
        TRY(entries.add(tx, {.time_us = context.now(),
                             .kind = schema::EvidenceKind::block_lifted,
                             .actor = actor,
                             .subject = {.promotion = block->promotion,
                                         .checkpoint = block->checkpoint,
                                         .contract = block->contract},
                             .body = {{"block", id}, {"kernel", block->kernel}, {"reason", reason}}}));
    TRY(store::lift_block(tx, id, actor, reason, context.now(), seq));
    return note_made(tx, id, [&]() -> schema::Result<View> {
      const auto lifted = TRY(store::find_block(tx, id));
      return block_view(lifted.value_or(*block));
    });
  });
}

}  // namespace driftgate::pipeline::people
