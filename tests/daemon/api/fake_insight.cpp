#include "fake_insight.hpp"

#include <fmt/core.h>

namespace driftgate::api::test {
namespace {

using schema::ErrorCode;

constexpr const char* kDigestText = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

constexpr const char* kSeries =
    R"({"promotion":"pr-1","stage":"canary","attempt":1,"stride":1,"points":[{"time_us":5,"step":0,"phase":"ramping",)"
    R"("share_bp":100,"keys":3,"exposed_requests":4,"exposed_keys":3,"action":"hold","requests":{"candidate":4,)"
    R"("incumbent":396},"failures":{"candidate":0,"incumbent":1},"latency":{"ttft_ms":{"candidate":[1,2,3.5],)"
    R"("incumbent":null},"total_ms":{"candidate":null,"incumbent":[4,5,6]}}}],"clauses":[{"clause":"runtime.errors",)"
    R"("slice":"","severity":"hard","rule":"e_value","limit_kind":"max","threshold":0.05,"alpha":0.005,)"
    R"("e_harm_needed":200,"e_proof_needed":40,"points":[{"time_us":5,"n":3,"clusters":3,"estimate":0,"lower":null,)"
    R"("upper":null,"e_value":0.9,"e_proof":"Infinity","verdict":"inconclusive"}]}],"marks":[{"time_us":4,"seq":7,)"
    R"("kind":"route_applied","text":"share 0% → 1%","actor":null}],"planned":[{"step":0,"share_bp":100,)"
    R"("approval":false,"min_duration_ms":1000,"bake":false}]})";

constexpr const char* kDistribution =
    R"({"metric":"tv","slice":"","rows":10,"candidate":{"unit":"rows","n":10,"edges":[0.1,0.2],"cdf":[0.5,1],)"
    R"("mean":0.15,"quantiles":{"0.5":0.1}},"floors":{"train":null,"inf":null},"by":{"slice":"","position":[)"
    R"({"from":0,"to":1,"rows":10,"mean":0.15}],"entropy":[],"probability":[]},"worst":[{"row":1,"value":0.2,)"
    R"("sequence":1,"id":"a","position":0,"token":7,"token_text":null,"slice":"","kl_before":0.1,"kl_after":"NaN"}]})";

schema::Result<pipeline::View> known(const std::string& asked, const std::string& name, std::string json) {
  if (asked == name) return pipeline::View{name, 1, false, std::move(json)};
  return schema::fail(ErrorCode::not_found, fmt::format("there is no '{}'", asked));
}

}  // namespace

schema::Result<pipeline::View> FakeInsight::series(const pipeline::SeriesRequest& request) {
  series_asked.push_back(request);
  return known(request.promotion, "pr-1", kSeries);
}

schema::Result<pipeline::View> FakeInsight::distribution(const pipeline::DistributionRequest& request) {
  distributions_asked.push_back(request);
  return known(request.promotion, "pr-1", kDistribution);
}

schema::Result<pipeline::View> FakeInsight::explain_contract(const std::string& asked) {
  return known(
      asked, "c",
      fmt::format(R"({{"digest":"{}","name":"c","yaml":"kind: KernelContract\n","lint":{{"valid":true,)"
                  R"("faults":[],"warnings":[]}},"clauses":[{{"clause":"numerical.tv","family":"numerical",)"
                  R"("severity":"hard","line":3,"text":"tv","needs":[]}}],"stages":[],"text":"tv"}})",
                  kDigestText));
}

schema::Result<pipeline::View> FakeInsight::compare_contracts(const std::string& from,
                                                              const std::string& to) {
  return known(
      from + to, "cc",
      fmt::format(
          R"({{"from":{{"digest":"{0}","name":"c"}},"to":{{"digest":"{0}","name":"c"}},"changes":[)"
          R"({{"change":"looser","where":"numerical.tv max","text":"1 → 2","before":"1","after":"2"}})"
          R"(],"text":"looser"}})",
          kDigestText));
}

}  // namespace driftgate::api::test
