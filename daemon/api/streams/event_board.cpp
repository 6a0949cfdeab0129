#include "daemon/api/streams/event_board.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/api/streams/shown_entry.hpp"
#include "daemon/base/json_members.hpp"

namespace driftgate::api {
namespace {

constexpr std::size_t kRecent = 1'024;          ///< entries that are kept for all streams
constexpr std::size_t kRecentBytes = 16u << 20;  ///< of them
constexpr std::size_t kEndedKept = 256;         ///< promotions whose last item is kept
constexpr std::int64_t kLookAgeUs = 1'000'000;  ///< jobs move without a transaction
constexpr std::int64_t kLeastLookUs = 200'000;  ///< however many transactions are committed

EventBoard::Text text_of(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

EventBoard::Told told(const evidence::StoredEntry& entry) {
  const auto parsed = nlohmann::json::parse(entry.bytes, nullptr, false);
  EventBoard::Told told{
      entry.seq, base::maybe_text_at(parsed, "kind").value_or("entry"), text_of(entry.bytes), {}};
  if (const auto shown = shown_to_all(told.kind, parsed)) told.shortened = text_of(shown->dump());
  return told;
}

std::size_t bytes_of(const EventBoard::Told& told) {
  return told.whole->size() + (told.shortened ? told.shortened->size() : 0);
}

}  // namespace

EventBoard::EventBoard(pipeline::Service& service, EvidencePort& evidence,
                       std::function<std::uint64_t()> commits, std::function<std::int64_t()> now_us)
    : service_(service), evidence_(evidence), commits_(std::move(commits)), now_us_(std::move(now_us)) {}

/// Adds what was appended since the last time. The first time only learns how long the log is.
Result<void> EventBoard::read_log() {
  const auto commits = commits_ ? std::optional(commits_()) : std::nullopt;
  if (begun_ && commits && commits == log_read_at_) return {};
  evidence::EntryFilter filter;
  if (!begun_) {
    filter.newest_first = true;
    filter.limit = 1;
    const auto page = TRY(evidence_.page(filter));
    size_ = page.tree_size;
    begun_ = true;
    log_read_at_ = commits;
    return {};
  }
  filter.limit = evidence::kMaxPage;
  for (bool more = true; more;) {
    if (size_ > 0) filter.cursor = static_cast<std::int64_t>(size_) - 1;
    const auto page = TRY(evidence_.page(filter));
    if (page.tree_size > size_ + kRecent) {
      // Nobody listened for long: streams read what is older themselves.
      recent_.clear();
      recent_bytes_ = 0;
      size_ = page.tree_size - kRecent;
      continue;
    }
    for (const auto& entry : page.entries) keep(told(entry));
    if (!page.entries.empty()) size_ = static_cast<std::uint64_t>(page.entries.back().seq) + 1;
    more = page.next.has_value();
  }
  log_read_at_ = commits;
  return {};
}

void EventBoard::keep(Told entry) {
  recent_bytes_ += bytes_of(entry);
  recent_.push_back(std::move(entry));
  while (recent_.size() > kRecent || (recent_.size() > 1 && recent_bytes_ > kRecentBytes)) {
    recent_bytes_ -= bytes_of(recent_.front());
    recent_.pop_front();
  }
}

Result<std::uint64_t> EventBoard::size() {
  const std::lock_guard lock(log_mutex_);
  TRY(read_log());
  return size_;
}

Result<std::vector<EventBoard::Told>> EventBoard::entries_after(std::int64_t after, std::size_t limit) {
  std::vector<Told> entries;
  {
    const std::lock_guard lock(log_mutex_);
    TRY(read_log());
    const auto first = recent_.empty() ? static_cast<std::int64_t>(size_) : recent_.front().seq;
    if (after + 1 >= first) {
      const auto skipped = static_cast<std::size_t>(after + 1 - first);
      for (std::size_t i = skipped; i < recent_.size() && entries.size() < limit; ++i)
        entries.push_back(recent_[i]);
      return entries;
    }
  }
  // Older than what is kept: this stream alone catches up.
  evidence::EntryFilter filter;
  if (after >= 0) filter.cursor = after;
  filter.limit = static_cast<std::int64_t>(limit);
  const auto page = TRY(evidence_.page(filter));
  for (const auto& entry : page.entries) entries.push_back(told(entry));
  return entries;
}

/// Promotions that were open at the look before and are no more, each as it ended.
void EventBoard::keep_ended(Look& next, const Look& before) {
  next.ended = before.ended;
  for (const auto& [id, text] : before.open) {
    if (next.open.contains(id)) continue;
    const auto item = service_.promotion_item(id);
    if (!item) continue;
    if (next.ended.insert_or_assign(id, text_of(item->json)).second) ended_order_.push_back(id);
    if (ended_order_.size() <= kEndedKept) continue;
    next.ended.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

Result<std::shared_ptr<const EventBoard::Look>> EventBoard::look_again() {
  auto items = TRY(service_.open_items());
  auto next = std::make_shared<Look>();
  for (auto& item : items) {
    // What has not changed stays the same text, which streams know by its address.
    const auto known = look_ ? look_->open.find(item.id) : std::map<std::string, Text>::const_iterator();
    const bool same = look_ && known != look_->open.end() && *known->second == item.json;
    next->open.emplace(item.id, same ? known->second : text_of(std::move(item.json)));
  }
  if (look_) keep_ended(*next, *look_);
  return next;
}

Result<std::shared_ptr<const EventBoard::Look>> EventBoard::look() {
  const std::lock_guard lock(look_mutex_);
  const auto commits = commits_ ? std::optional(commits_()) : std::nullopt;
  const auto now = now_us_();
  // Commits in quick succession share a look; who is told the older one is woken again by the ticker.
  const auto age = now - looked_us_;
  const bool same = commits && commits == looked_at_;
  const bool fresh = look_ && commits && age >= 0 && age < (same ? kLookAgeUs : kLeastLookUs);
  if (fresh) return look_;
  look_ = TRY(look_again());
  looked_at_ = commits;
  looked_us_ = now;
  return look_;
}

}  // namespace driftgate::api
