#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// What a trial of a request asks. Safe from any thread; outlives the call.
struct TrialParts {
  store::Store& store;
  const std::map<std::string, Adapter>& adapters;
  /// All that speaks against a request: see find_faults.
  std::function<schema::Result<std::vector<schema::Error>>(const std::string& actor, const PromotionRequest&)>
      faults;
  std::function<schema::Result<void>(const std::string& base_url)> reach;  ///< whether an engine answers
};

/// Tries the request of a schedule without making it. The error of a request that can never be accepted as it
/// is, even behind others that may pass; else why it would not be accepted now, one sentence each: a hold, a
/// block, a capture that is not there yet, an engine that does not answer, a promotion in progress.
[[nodiscard]] schema::Result<std::vector<std::string>> try_request(const TrialParts& parts,
                                                                   const std::string& actor,
                                                                   const PromotionRequest& request);

}  // namespace driftgate::pipeline
