#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/pipeline/read/contract_cache.hpp"
#include "daemon/pipeline/read/promotion_facts.hpp"
#include "daemon/pipeline/read/shown.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/schedule/blackout.hpp"

namespace driftgate::pipeline {

/// Promotions and models as lists show them (service.hpp), read in the caller's transaction by a number of
/// statements that does not depend on the length of the page. Remembers what it showed, so that a decision on
/// something older can be refused with what has changed. Thread-safe.
class PromotionLists {
 public:
  /// Texts that are no blackout are left out: the start of the pipeline refuses them.
  PromotionLists(jobs::JobRunner& runner, const std::vector<std::string>& blackouts);

  [[nodiscard]] schema::Result<View> promotion(store::Reader& reader, const std::string& id,
                                               std::int64_t now_us);
  [[nodiscard]] schema::Result<View> item(store::Reader& reader, const std::string& id, std::int64_t now_us);
  [[nodiscard]] schema::Result<Page> page(store::Reader& reader, const PromotionFilter& filter,
                                          const PageRequest& request, std::int64_t now_us);
  [[nodiscard]] schema::Result<std::vector<View>> open_items(store::Reader& reader, std::int64_t now_us);
  [[nodiscard]] schema::Result<Overview> overview(store::Reader& reader, const std::string& text,
                                                  const PageRequest& request, std::int64_t now_us);
  /// `conflict` when the promotion is not as it was shown under this digest.
  [[nodiscard]] schema::Result<void> check(store::Reader& reader, const std::string& id,
                                           const std::string& shown, std::int64_t now_us);

 private:
  [[nodiscard]] Sources sources(std::int64_t now_us);
  [[nodiscard]] schema::Result<PromotionFacts> facts_of(store::Reader& reader, const std::string& id,
                                                        std::int64_t now_us);
  [[nodiscard]] schema::Result<std::vector<View>> items(store::Reader& reader,
                                                        const std::vector<store::PromotionRow>& rows,
                                                        std::int64_t now_us);

  jobs::JobRunner& runner_;
  std::vector<schedule::Blackout> blackouts_;
  ContractCache contracts_;
  ShownBook shown_;
};

}  // namespace driftgate::pipeline
