#include "stages/statistics/noise_contrast.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace driftgate::stages {

MeanTest noise_contrast(std::span<const NoiseTriple> triples, double max_excess, double alpha,
                        std::uint64_t seed) {
  std::map<std::uint64_t, ClusterSum> by_key;
  double candidate = 0;
  double secondary = 0;
  for (const NoiseTriple& triple : triples) {
    ClusterSum& sum = by_key[triple.cluster];
    sum.n += 1;
    sum.sum += static_cast<double>(triple.candidate_differs) - static_cast<double>(triple.secondary_differs);
    candidate += static_cast<double>(triple.candidate_differs);
    secondary += static_cast<double>(triple.secondary_differs);
  }
  std::vector<ClusterSum> clusters;
  for (const auto& [key, sum] : by_key) clusters.push_back(sum);
  MeanTest test;
  if (clusters.empty()) {
    test.method = "noise arm";
    test.undecidable = "no request was answered by both copies of the incumbent and by the candidate";
    return test;
  }
  count_once(clusters);
  test = betting_mean(clusters, max_excess, {-1, 1, 1}, alpha, seed);
  test.n = triples.size();
  test.method = "noise arm, " + test.method;
  test.details["candidate_differs"] = candidate;
  test.details["secondary_differs"] = secondary;
  test.details["no_evidence_of_equality"] = test.estimate <= 0 ? 1 : 0;
  return test;
}

void NoiseContrastProcess::update(bool candidate_differs, bool secondary_differs) {
  process_.update(static_cast<double>(secondary_differs) - static_cast<double>(candidate_differs));
}

nlohmann::json NoiseContrastProcess::to_json() const {
  return process_.to_json();
}

NoiseContrastProcess NoiseContrastProcess::from_json(const nlohmann::json& json, double max_excess,
                                                     double alpha) {
  NoiseContrastProcess process(max_excess, alpha);
  process.process_ = NonInferiorityProcess::from_json(json, max_excess, alpha);
  return process;
}

std::string noise_statement(double excess) {
  if (excess > 0) {
    return fmt::format(
        "The candidate's answers differ {:.4g} more often than the incumbent's own noise does.", excess);
  }
  return "The candidate's answers differ no more often than the incumbent's own noise does, which is no "
         "evidence that the kernels are equal: noise can hide a difference.";
}

}  // namespace driftgate::stages
