#include "daemon/pipeline/read/series_marks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "daemon/base/json_members.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/pipeline/read/json_views.hpp"

namespace driftgate::pipeline {
namespace {

using base::integer_at;
using base::text_at;
using nlohmann::json;
using schema::EvidenceKind;

constexpr std::int64_t kEntriesForMark = 20;

std::string with(std::string text, const std::string& reason) {
  return reason.empty() ? text : fmt::format("{}: {}", std::move(text), reason);
}

/// "freeze for runtime.errors on language=de: …"; the daemon's own sentence, which the promotion shows too.
std::string order_text(const json& body) {
  auto text = text_at(body, "action");
  const auto clause = text_at(body, "clause");
  const auto slice = text_at(body, "slice");
  if (const auto ordered = text_at(body, "ordered"); !ordered.empty() && ordered != text)
    text += " from " + ordered;
  if (!clause.empty()) text += " for " + clause;
  if (!slice.empty()) text += " on " + slice;
  return with(std::move(text), text_at(body, "reason"));
}

std::string count_text(const json& body) {
  const auto needed = integer_at(body, "needed");
  return needed > 0 ? fmt::format(" ({} of {})", integer_at(body, "given"), needed) : std::string();
}

/// Approvals and waivers say what was decided where it is not what their kind says.
std::string decided_text(const json& body, std::string_view usual, const std::string& text) {
  const auto decision = text_at(body, "decision");
  if (decision.empty() || decision == usual) return text + count_text(body);
  return fmt::format("{}: {}", text, decision);
}

/// Puts the marks of entries together, in the order of the log.
class Marks {
 public:
  /// `whole`: no entry is left out, so that the first share is one after 0.
  Marks(bool actors, bool whole) : actors_(actors) {
    if (whole) share_bp_ = 0;
  }

  void add(const evidence::StoredEntry& stored) {
    const auto entry = json::parse(stored.bytes, nullptr, false);
    if (!entry.is_object()) return;
    const auto kind = text_at(entry, "kind");
    const auto text = text_of(kind, base::object_at(entry, "body"));
    if (text.empty()) return;
    list_.push_back({{"time_us", integer_at(entry, "time_us")},
                     {"seq", stored.seq},
                     {"kind", kind},
                     {"text", text},
                     {"actor", actors_ ? json(text_at(entry, "actor")) : json(nullptr)}});
  }
  [[nodiscard]] json newest(std::size_t most) {
    json list = json::array();
    for (std::size_t i = list_.size() - std::min(most, list_.size()); i < list_.size(); ++i)
      list.push_back(std::move(list_[i]));
    return list;
  }

 private:
  /// "" for what is no mark.
  std::string text_of(const std::string& kind, const json& body) {
    const auto reason = actors_ ? text_at(body, "reason") : std::string();
    if (kind == "route_applied") return share_change(body);
    if (kind == "escalation_decided") return order_text(body);
    if (kind == "approval_given")
      return with(
          decided_text(body, "approve", fmt::format("approval of step {}", integer_at(body, "step") + 1)),
          reason);
    if (kind == "waiver_given")
      return with(decided_text(body, "waive", "waiver of " + text_at(body, "clause")), reason);
    if (kind == "hold_set") return with("the model is held", reason);
    if (kind == "block_set") return with("the checkpoint and kernel are blocked", reason);
    if (kind == "breaker_changed")
      return with(fmt::format("breaker of the {} {}", text_at(body, "arm"), text_at(body, "state")),
                  text_at(body, "reason"));
    const auto from = text_at(body, "from"), to = text_at(body, "to");
    return from == to ? std::string() : with(fmt::format("{} → {}", from, to), reason);
  }

  std::string share_change(const json& body) {
    const auto share = integer_at(body, "candidate_bp");
    if (share == share_bp_) return {};
    auto text = share_bp_ ? fmt::format("share {} → {}", share_text(*share_bp_), share_text(share))
                          : fmt::format("share {}", share_text(share));
    share_bp_ = share;
    return text;
  }

  const bool actors_;
  std::vector<json> list_;
  std::optional<std::int64_t> share_bp_;  ///< before the next entry, as far as known
};

}  // namespace

schema::Result<json> series_marks(store::Reader& reader, const MarkFilter& wanted) {
  evidence::EntryFilter filter;
  filter.promotion = wanted.promotion;
  filter.kinds = {EvidenceKind::state_changed,      EvidenceKind::route_applied,
                  EvidenceKind::escalation_decided, EvidenceKind::approval_given,
                  EvidenceKind::waiver_given,       EvidenceKind::hold_set,
                  EvidenceKind::block_set,          EvidenceKind::breaker_changed};
  filter.from_us = wanted.from_us;
  filter.to_us = wanted.to_us;
  filter.newest_first = true;
  // Not every entry is a mark: a route may change something else than the share.
  filter.limit = std::min(kMaxMarks, kEntriesForMark * (wanted.most + 1));
  auto page = TRY(evidence::query_entries(reader, filter));
  std::ranges::reverse(page.entries);
  Marks marks(wanted.actors, !page.next);
  for (const auto& entry : page.entries) marks.add(entry);
  return marks.newest(static_cast<std::size_t>(wanted.most));
}

}  // namespace driftgate::pipeline
