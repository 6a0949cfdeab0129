#include "daemon/api/promotion_feed.hpp"

#include <nlohmann/json.hpp>

#include "daemon/api/problem.hpp"

namespace driftgate::api {
namespace {

class PromotionFeed final : public net::EventFeed {
 public:
  PromotionFeed(pipeline::Service& service, EvidencePort& evidence, std::string promotion,
                std::optional<std::int64_t> after)
      : service_(service), evidence_(evidence), promotion_(std::move(promotion)), after_(after) {}

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
  bool add_entries(Batch& batch, bool& more) {
    evidence::EntryFilter filter;
    filter.promotion = promotion_;
    filter.cursor = after_;
    filter.limit = static_cast<std::int64_t>(kMaxBatch);
    const auto page = evidence_.page(filter);
    if (!page) return false;
    for (const evidence::StoredEntry& entry : page->entries) {
      const auto parsed = nlohmann::json::parse(entry.bytes, nullptr, false);
      const bool named = parsed.is_object() && parsed.contains("kind") && parsed["kind"].is_string();
      batch.events.push_back(
          {std::to_string(entry.seq), named ? parsed["kind"].get<std::string>() : "entry", entry.bytes});
      after_ = entry.seq;
    }
    more = batch.events.size() >= kMaxBatch;
    return true;
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
                                               std::string promotion, std::optional<std::int64_t> after) {
  return std::make_shared<PromotionFeed>(service, evidence, std::move(promotion), after);
}

std::shared_ptr<net::Deferred> promotion_wait(pipeline::Service& service, std::string promotion,
                                              net::Response first, std::chrono::milliseconds wait) {
  return std::make_shared<PromotionWait>(service, std::move(promotion), std::move(first), wait);
}

}  // namespace driftgate::api
