#include "daemon/pipeline/read/insight.hpp"

#include <fmt/format.h>

#include <mutex>

#include "daemon/pipeline/read/contract_texts.hpp"
#include "daemon/pipeline/read/distribution.hpp"
#include "daemon/pipeline/read/recently_used.hpp"
#include "daemon/pipeline/read/series.hpp"
#include "daemon/store/look_up.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::size_t kTableBytes = 64u << 20;  // as stored; parsed they take a few times as much
constexpr std::size_t kExplanationBytes = 8u << 20;

class StoredInsight final : public Insight {
 public:
  explicit StoredInsight(store::Store& store) : store_(store) {}

  schema::Result<View> series(const SeriesRequest& request) override {
    return store::look_up(store_, series_view, request);
  }

  schema::Result<View> distribution(const DistributionRequest& request) override {
    return distribution_view(store_, tables_, request);
  }

  schema::Result<View> explain_contract(const std::string& digest_or_name) override {
    const auto row = TRY(contract(digest_or_name));
    if (auto known = explanations_.find(row.digest)) return *known;
    // It takes up to seconds of a worker, which other requests need too: one at a time, and nobody waits for
    // it.
    const std::unique_lock explaining(explaining_, std::try_to_lock);
    if (!explaining.owns_lock()) {
      return schema::fail(schema::ErrorCode::unavailable,
                          "another contract is being explained: try again in a second");
    }
    if (auto known = explanations_.find(row.digest)) return *known;
    auto view = TRY(contract_explanation(row));
    explanations_.put(row.digest, view, view.json.size());
    return view;
  }

  schema::Result<View> compare_contracts(const std::string& from, const std::string& to) override {
    const auto before = TRY(contract(from));
    const auto after = TRY(contract(to));
    return contract_comparison(before, after);
  }

 private:
  schema::Result<store::ContractRow> contract(const std::string& name) {
    const auto find = name.starts_with("sha256:") ? store::find_contract : store::find_contract_by_name;
    auto row = TRY(store::look_up(store_, find, name));
    if (row) return std::move(*row);
    return schema::fail(schema::ErrorCode::not_found, fmt::format("there is no contract {}", name));
  }

  store::Store& store_;
  TableCache tables_{kTableBytes};
  RecentlyUsed<View> explanations_{kExplanationBytes};
  std::mutex explaining_;
};

}  // namespace

std::unique_ptr<Insight> stored_insight(store::Store& store) {
  return std::make_unique<StoredInsight>(store);
}

}  // namespace driftgate::pipeline
