#include <string>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/job.hpp"
#include "daemon/jobs/shadow_pairs.hpp"
#include "tests/fuzz/unit.hpp"

/// What engines answer to probes and rescoring, and what workers leave behind.
void driftgate::fuzz::run(std::string_view bytes) {
  if (const auto scored = jobs::parse_logprobs(bytes))
    require(scored->tokens.size() == scored->logprobs.size(), "a log-probability for each token");
  (void)jobs::abilities_from_json(bytes);
  (void)jobs::job_result_from_json(bytes);
  (void)jobs::job_spec_from_json(bytes);
  if (const auto pairs = jobs::pairs_from_jsonl(bytes)) {
    const auto text = jobs::pairs_to_jsonl(*pairs);
    const auto again = jobs::pairs_from_jsonl(text);
    require(again.has_value() && jobs::pairs_to_jsonl(*again) == text, "pairs are written back the same");
  }
  route::MirroredPair::Side side;
  side.body = bytes;
  route::MirroredPair pair;
  pair.request_body = bytes;
  (void)jobs::prompt_of(pair);
  (void)jobs::sampling_of(pair, jobs::sampling_defaults(bytes));
  const auto generated = jobs::generated_of(side);
  if (const auto same = jobs::greedy_agreement(generated, generated))
    require(same->equal == same->longest, "an answer agrees with itself");
}
