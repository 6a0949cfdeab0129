#include "daemon/api/streams/promotion_feed.hpp"

#include <nlohmann/json.hpp>

#include "daemon/api/problem.hpp"
#include "daemon/api/streams/shown_entry.hpp"
#include "daemon/base/json_members.hpp"

namespace driftgate::api {
namespace {

class PromotionFeed final : public net::EventFeed {
 public:
  PromotionFeed(pipeline::Service& service, EvidencePort& evidence, std::string promotion,
                std::optional<std::int64_t> after, FeedOf shown)
      : service_(service),
        evidence_(evidence),
        promotion_(std::move(promotion)),
        after_(after),
        shown_(shown) {}

  Batch next() override {
    // The state is read before the entries: when it is terminal, the entries that follow are all there.
    const auto outcome = service_.outcome(promotion_);
    Batch batch;
    bool more = false;
    if (!add_entries(batch, more) || !outcome) return failed(std::move(batch));
    if (more) return batch;
    const auto view = service_.promotion(promotion_);
    if (!view) return failed(std::move(batch));
    if (outcome->terminal) {
      batch.events.push_back({"", "end", view->json});
      batch.ended = true;
    } else if (view->json != last_view_) {
      batch.events.push_back({"", "progress", view->json});
      last_view_ = view->json;
    }
    return batch;
  }

 private:
  /// Goes on to the last entry or to a full batch, which `more` says.
  bool add_entries(Batch& batch, bool& more) {
    evidence::EntryFilter filter;
    filter.promotion = promotion_;
    while (batch.events.size() < kMaxBatch) {
      filter.cursor = after_;
      filter.limit = static_cast<std::int64_t>(kMaxBatch - batch.events.size());
      const auto page = evidence_.page(filter);
      if (!page) return false;
      for (const evidence::StoredEntry& entry : page->entries) add_entry(batch, entry);
      if (!page->next) break;
    }
    more = batch.events.size() >= kMaxBatch;
    return true;
  }

  void add_entry(Batch& batch, const evidence::StoredEntry& entry) {
    after_ = entry.seq;
    const auto parsed = nlohmann::json::parse(entry.bytes, nullptr, false);
    const std::string kind = base::maybe_text_at(parsed, "kind").value_or("entry");
    if (shown_ == FeedOf::entries) {
      batch.events.push_back({std::to_string(entry.seq), kind, entry.bytes});
    } else if (const auto shown = shown_of_states(kind, parsed)) {
      batch.events.push_back({std::to_string(entry.seq), kind, shown->dump()});
    }
  }

  /// Ends the stream; the client resumes with the last id it has.
  static Batch failed(Batch batch) {
    batch.ended = true;
    return batch;
  }

  pipeline::Service& service_;
  EvidencePort& evidence_;
  const std::string promotion_;
  std::optional<std::int64_t> after_;
  const FeedOf shown_;
  std::string last_view_;
};

class PromotionWait final : public net::Deferred {
 public:
  PromotionWait(pipeline::Service& service, std::string promotion, net::Response first,
                std::chrono::milliseconds wait)
      : service_(service), promotion_(std::move(promotion)), first_(std::move(first)), wait_(wait) {}

  std::optional<net::Response> poll(bool last) override {
    const auto outcome = service_.outcome(promotion_);
    if (!outcome) return problem(outcome.error());
    if (!outcome->terminal && !last) return std::nullopt;
    const auto view = service_.promotion(promotion_);
    if (!view) return problem(view.error());
    net::Response response = first_;
    response.body = view->json;
    response.headers.push_back({"Preference-Applied", "wait=" + std::to_string(wait_.count() / 1000)});
    return response;
  }

  [[nodiscard]] std::chrono::milliseconds wait() const override { return wait_; }

 private:
  pipeline::Service& service_;
  const std::string promotion_;
  const net::Response first_;
  const std::chrono::milliseconds wait_;
};

}  // namespace

std::shared_ptr<net::EventFeed> promotion_feed(pipeline::Service& service, EvidencePort& evidence,
                                               std::string promotion, std::optional<std::int64_t> after,
                                               FeedOf shown) {
  return std::make_shared<PromotionFeed>(service, evidence, std::move(promotion), after, shown);
}

std::shared_ptr<net::Deferred> promotion_wait(pipeline::Service& service, std::string promotion,
                                              net::Response first, std::chrono::milliseconds wait) {
  return std::make_shared<PromotionWait>(service, std::move(promotion), std::move(first), wait);
}

}  // namespace driftgate::api
