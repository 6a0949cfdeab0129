#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/promotions/blocks.hpp"

namespace driftgate::pipeline {
namespace {

std::string day_of(std::int64_t time_us) {
  const std::chrono::sys_time<std::chrono::seconds> at{std::chrono::seconds(time_us / 1'000'000)};
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", at);
}

}  // namespace

/// `conflict` (409) with who, when and why when the pair may not be promoted under the contract.
schema::Result<void> Core::refuse_blocked(const std::string& checkpoint, const std::string& kernel,
                                          const std::string& contract) const {
  auto block = world_.store.read(
      [&](store::Reader& reader) { return store::block_in_force(reader, checkpoint, kernel, contract); });
  if (!block) return std::unexpected(block.error());
  if (!*block) return {};
  const auto& row = **block;
  return schema::fail(
      schema::ErrorCode::conflict,
      fmt::format(
          "kernel {} on checkpoint {} may not be promoted under this contract: {} blocked it on {} in "
          "promotion {}: {} An operator lifts it by `driftgate block lift {} --reason …`",
          row.kernel, row.checkpoint, row.set_by, day_of(row.set_us), row.promotion, row.reason, row.id),
      "/engine");
}

/// The candidate's checkpoint and kernel may not be promoted again under the contract.
schema::Result<void> Core::put_block(store::Tx& tx, Entries& entries, const Live& live, const std::string& id,
                                     const stages::EscalationDecision& order) const {
  store::BlockRow block;
  block.id = id;
  block.checkpoint = live.candidate.checkpoint;
  block.kernel = live.candidate.kernel;
  block.contract = live.row.contract;
  block.promotion = live.row.id;
  block.reason = order.reason;
  block.set_by = kDaemonActor;
  block.set_us = now();
  auto known = store::block_in_force(tx, block.checkpoint, block.kernel, block.contract);
  if (!known) return std::unexpected(known.error());
  if (*known) return {};
  auto seq = entries.add(tx, draft(live, schema::EvidenceKind::block_set, {},
                                   {{"block", block.id},
                                    {"kernel", block.kernel},
                                    {"clause", order.clause},
                                    {"slice", schema::slice_text(order.where)},
                                    {"rule", order.rule},
                                    {"reason", order.reason}}));
  if (!seq) return std::unexpected(seq.error());
  block.evidence_seq = *seq;
  auto inserted = store::insert_block(tx, block);
  if (!inserted) return std::unexpected(inserted.error());
  return {};
}

schema::Result<void> Core::lift_block(const std::string& actor, const std::string& id,
                                      const std::string& reason) {
  return commit("lift block", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto block = store::find_block(tx, id);
    if (!block) return std::unexpected(block.error());
    if (!*block) return schema::fail(schema::ErrorCode::not_found, fmt::format("there is no block {}", id));
    schema::EntryDraft entry;
    entry.time_us = now();
    entry.kind = schema::EvidenceKind::block_lifted;
    entry.actor = actor;
    entry.subject.promotion = (*block)->promotion;
    entry.subject.checkpoint = (*block)->checkpoint;
    entry.subject.contract = (*block)->contract;
    entry.body = {{"block", id}, {"kernel", (*block)->kernel}, {"reason", reason}};
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    return store::lift_block(tx, id, actor, reason, now(), *seq);
  });
}

}  // namespace driftgate::pipeline
