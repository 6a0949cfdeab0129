#include "daemon/api/streams/live_feed.hpp"

#include <map>
#include <nlohmann/json.hpp>

namespace driftgate::api {
namespace {

constexpr std::size_t kReadAhead = 512;  ///< entries, most of which may not be shown

class LiveFeed final : public net::EventFeed {
 public:
  LiveFeed(std::shared_ptr<EventBoard> board, ServerFacts server, std::optional<std::int64_t> after,
           FeedOf shown)
      : board_(std::move(board)), server_(std::move(server)), after_(after), shown_(shown) {}

  /// After a failure of the store the stream ends; the client resumes with the last id that it has.
  Batch next() override {
    Batch batch;
    const bool begun = begun_ || begin(batch);
    batch.ended = !begun || !add_entries(batch) || (caught_up_ && !add_progress(batch));
    batch.more = !batch.ended && !caught_up_;
    return batch;
  }

 private:
  bool begin(Batch& batch) {
    const auto size = board_->size();
    if (!size) return false;
    batch.events.push_back(
        {"", "hello",
         nlohmann::json{{"tree_size", *size},
                        {"server", {{"version", server_.version}, {"started_us", server_.started_us}}}}
             .dump()});
    const auto last = static_cast<std::int64_t>(*size) - 1;
    if (after_ && *after_ > last)
      batch.events.push_back({"", "reset", nlohmann::json{{"tree_size", *size}}.dump()});
    position_ = after_ && *after_ <= last ? *after_ : last;
    begun_ = true;
    return true;
  }

  /// One read of the log, so that streams that catch up take turns on the workers; then, at its end,
  /// progress.
  bool add_entries(Batch& batch) {
    const bool whole = shown_ == FeedOf::entries;
    const auto wanted = whole ? kMaxBatch - batch.events.size() : kReadAhead;
    const auto entries = board_->entries_after(position_, wanted);
    if (!entries) return false;
    caught_up_ = entries->size() < wanted;
    for (const auto& entry : *entries) {
      if (batch.events.size() >= kMaxBatch) {
        caught_up_ = false;
        break;
      }
      position_ = entry.seq;
      const auto& data = whole ? entry.whole : entry.shortened;
      if (data) batch.events.push_back({std::to_string(entry.seq), entry.kind, *data});
    }
    return true;
  }

  bool add_progress(Batch& batch) {
    const auto look = board_->look();
    if (!look) return false;
    for (const auto& [id, text] : (*look)->open) {
      if (batch.events.size() >= kMaxBatch) return true;
      auto& sent = sent_[id];
      if (sent == text) continue;
      sent = text;
      batch.events.push_back({"", "progress", *text});
    }
    for (auto at = sent_.begin(); at != sent_.end();) {
      if ((*look)->open.contains(at->first)) {
        ++at;
        continue;
      }
      if (batch.events.size() >= kMaxBatch) return true;
      const auto ended = (*look)->ended.find(at->first);
      if (ended != (*look)->ended.end()) batch.events.push_back({"", "progress", *ended->second});
      at = sent_.erase(at);
    }
    return true;
  }

  const std::shared_ptr<EventBoard> board_;
  const ServerFacts server_;
  const std::optional<std::int64_t> after_;
  const FeedOf shown_;
  bool begun_ = false;
  bool caught_up_ = false;
  std::int64_t position_ = -1;  ///< the last entry that was told or passed over
  std::map<std::string, EventBoard::Text> sent_;
};

}  // namespace

std::shared_ptr<net::EventFeed> live_feed(std::shared_ptr<EventBoard> board, ServerFacts server,
                                          std::optional<std::int64_t> after, FeedOf shown) {
  return std::make_shared<LiveFeed>(std::move(board), std::move(server), after, shown);
}

}  // namespace driftgate::api
