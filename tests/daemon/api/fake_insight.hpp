#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/read/insight.hpp"

namespace driftgate::api::test {

/// Knows the promotion "pr-1" and the contract "c", and remembers what was asked.
class FakeInsight final : public pipeline::Insight {
 public:
  using View = pipeline::View;
  std::vector<pipeline::SeriesRequest> series_asked;
  std::vector<pipeline::DistributionRequest> distributions_asked;

  schema::Result<View> series(const pipeline::SeriesRequest& request) override;
  schema::Result<View> distribution(const pipeline::DistributionRequest& request) override;
  schema::Result<View> explain_contract(const std::string& digest_or_name) override;
  schema::Result<View> compare_contracts(const std::string& from, const std::string& to) override;
};

}  // namespace driftgate::api::test
