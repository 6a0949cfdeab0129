#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "daemon/jobs/drift_inputs.hpp"
#include "daemon/jobs/engines/batch_probe.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/engines/greedy.hpp"
#include "daemon/jobs/rescoring/score_answer.hpp"
#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/jobs/worker.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "gpu/drift.hpp"
#include "schema/json.hpp"
#include "schema/metrics.hpp"
#include "schema/sha256.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/offline_numeric.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr std::size_t kMaxPairs = 100'000;        ///< of one stage; more are left out and said
constexpr std::size_t kMaxLineBytes = 32u << 20;  ///< of the spool
constexpr std::size_t kMaxFailedInARow = 20;      ///< stops asking an engine that is gone
constexpr auto kGreedyTokens =
    static_cast<int>(schema::kGreedyTokens);  ///< of an answer whose beginning is compared
constexpr std::size_t kFloorPrompts = 256;    ///< most prompts of the noise floor

/// 256 bits that nobody can guess.
schema::Result<std::string> random_salt() {
  std::array<std::uint8_t, 32> bits{};
  if (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size()))
    return schema::fail(schema::ErrorCode::io, "the system gives no random bytes for the pair records");
  return schema::to_hex(bits);
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): an order of the pairs that follows from the seed alone.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

EngineAddress address_of(const RescorePayload::Side& side) {
  return {side.url, side.access};
}

class Rescore {
 public:
  Rescore(const RescorePayload& payload, const JobFolder& folder) : payload_(payload), folder_(folder) {}

  schema::Result<JobResult> run() {
    TRY(read_spool());
    choose();
    TRY(can_rescore() ? score_chosen() : compare_chosen());
    if (payload_.compare_greedy) {
      if (can_rescore()) TRY(compare_for_clauses());
      TRY(measure_floor());
    }
    TRY(probe());
    return result();
  }

 private:
  schema::Result<void> read_spool() {
    if (payload_.spool.empty()) return {};
    std::ifstream file(payload_.spool, std::ios::binary);
    if (!file)
      return schema::fail(ErrorCode::not_found, fmt::format("the spool {} cannot be opened", payload_.spool));
    std::size_t damaged = 0, left_out = 0;
    for (std::string line; std::getline(file, line);) {
      auto mirrored = line.size() > kMaxLineBytes
                          ? schema::fail(ErrorCode::limit_exceeded, "a line is too long")
                          : route::pair_from_line(line);
      if (!mirrored) {
        ++damaged;
      } else if (pairs_.size() < kMaxPairs) {
        pairs_.push_back(pair_of(*mirrored));
        mirrored_.push_back(std::move(*mirrored));
      } else {
        ++left_out;
      }
    }
    if (damaged > 0) notes_.push_back(fmt::format("{} lines of the spool could not be read", damaged));
    if (left_out > 0) notes_.push_back(fmt::format("{} pairs beyond {} were left out", left_out, kMaxPairs));
    return {};
  }

  /// Leaves at most `limit` of the pairs, in an order that follows from the seed.
  void draw(std::vector<std::size_t>& pairs, std::size_t limit) const {
    std::ranges::sort(pairs, {}, [&](std::size_t i) { return mixed(payload_.seed ^ pairs_[i].order); });
    if (pairs.size() > limit) pairs.resize(limit);
  }

  [[nodiscard]] bool both_answered(std::size_t i) const {
    return pairs_[i].incumbent == stages::RequestOutcome::ok &&
           pairs_[i].candidate == stages::RequestOutcome::ok;
  }

  [[nodiscard]] bool can_rescore() const {
    return payload_.incumbent.scoring != Scoring::none && payload_.candidate.scoring != Scoring::none;
  }

  /// The members by which `side` is asked for the log-probabilities of the tokens that it generates.
  [[nodiscard]] static nlohmann::json logprobs_of(const RescorePayload::Side& side,
                                                  const GreedyRequest& request) {
    const bool chat = request.body.contains("messages");
    return logprobs_members(chat ? LogprobsBy::top_logprobs : side.logprobs_by);
  }

  /// Whether both engines give log-probabilities of the tokens that they generate for this kind of request.
  [[nodiscard]] bool both_give_logprobs(const GreedyRequest& request) const {
    const bool chat = request.body.contains("messages");
    return std::ranges::all_of(std::array{&payload_.incumbent, &payload_.candidate}, [&](const auto* side) {
      return chat ? side->chat_logprobs : side->logprobs_by != LogprobsBy::none;
    });
  }

  [[nodiscard]] bool can_compare(std::size_t i) const {
    const auto request = greedy_request(mirrored_[i], kGreedyTokens);
    return request && both_give_logprobs(*request);
  }

  [[nodiscard]] bool gives_logprobs(std::size_t i) const {
    if (!can_rescore()) return can_compare(i);
    return !prompt_of(mirrored_[i]).empty() && !generated_of(mirrored_[i].candidate).text.empty();
  }

  /// Pairs with two answers of which log-probabilities can be had, in an order that follows from the seed, up
  /// to the limit.
  void choose() {
    for (std::size_t i = 0; i < pairs_.size(); ++i)
      if (both_answered(i) && gives_logprobs(i)) chosen_.push_back(i);
    draw(chosen_, payload_.max_rescored);
    std::ranges::sort(chosen_);
  }

  [[nodiscard]] schema::Result<EngineClient> client_of(const RescorePayload::Side& side) const {
    return EngineClient::connect(address_of(side), side.model, side.scoring, payload_.outgoing);
  }

  /// Asks of one pair after the other, until an engine has failed many times in a row.
  template <typename Ask>
  void each_of(const std::vector<std::size_t>& pairs, const char* words, Ask ask) {
    std::size_t failed_in_a_row = 0;
    for (std::size_t n = 0; n < pairs.size() && failed_in_a_row < kMaxFailedInARow; ++n) {
      failed_in_a_row = ask(pairs[n]) ? 0 : failed_in_a_row + 1;
      folder_.report({n + 1, pairs.size(), "pairs", words});
    }
    if (failed_in_a_row >= kMaxFailedInARow)
      notes_.push_back(fmt::format("{} stopped: an engine failed many times in a row", words));
  }

  schema::Result<void> score_chosen() {
    auto incumbent = TRY(client_of(payload_.incumbent));
    auto candidate = TRY(client_of(payload_.candidate));
    each_of(chosen_, "rescoring", [&](std::size_t i) { return score(i, incumbent, candidate); });
    return realised_.empty() ? schema::Result<void>() : tell_sampling();
  }

  /// How the tokens that were scored had been sampled: as the requests ask, and where they say nothing, as
  /// the engine tells. Unknown is not unfiltered.
  schema::Result<void> tell_sampling() {
    const auto defaults = TRY(ask_sampling_defaults(address_of(payload_.candidate), payload_.outgoing));
    for (const std::size_t i : chosen_) {
      if (!pairs_[i].has_logprobs) continue;
      const auto one = sampling_of(mirrored_[i], defaults);
      if (one == Sampling::filtered) sampling_ = one;
      if (one == Sampling::unknown && sampling_ == Sampling::unfiltered) sampling_ = one;
    }
    return {};
  }

  /// Where tokens that are given cannot be scored: both engines' greedy answers to the same request, up to
  /// the first different token; where there are no log-probabilities either, the mirrored answers themselves.
  schema::Result<void> compare_chosen() {
    notes_.push_back(
        fmt::format("the {} engine cannot score tokens that it is given, so answers are compared up to "
                    "the first different token",
                    payload_.candidate.scoring != Scoring::none ? "incumbent's" : "candidate's"));
    if (chosen_.empty()) {
      for (std::size_t i = 0; i < pairs_.size(); ++i) compare(i);
      return {};
    }
    return compare_greedily(chosen_);
  }

  /// Where the mirrored answers were rescored: greedy answers to one request of each sticky key beside them.
  schema::Result<void> compare_for_clauses() {
    std::vector<std::size_t> asked;
    std::set<std::uint64_t> keys;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (both_answered(i) && can_compare(i) && keys.insert(pairs_[i].key_hash).second) asked.push_back(i);
    }
    draw(asked, payload_.max_rescored);
    return compare_greedily(asked);
  }

  schema::Result<void> compare_greedily(const std::vector<std::size_t>& pairs) {
    auto incumbent = TRY(engine_http(address_of(payload_.incumbent), payload_.outgoing, true));
    auto candidate = TRY(engine_http(address_of(payload_.candidate), payload_.outgoing, true));
    each_of(pairs, "greedy answers", [&](std::size_t i) { return compare_pair(i, incumbent, candidate); });
    for (const auto& [kernel, count] : unlisted_) {
      notes_.push_back(fmt::format(
          "{} greedy answers by {} were left out: its engine lists fewer tokens than it generated "
          "(llama.cpp lists a character of several tokens once), so they cannot be compared",
          count, kernel));
    }
    return {};
  }

  bool compare_pair(std::size_t i, net::HttpClient& incumbent, net::HttpClient& candidate) {
    const auto request = greedy_request(mirrored_[i], kGreedyTokens);
    const auto ask = [&](net::HttpClient& client, const RescorePayload::Side& side) {
      return greedy_answer(client, side.model, *request, logprobs_of(side, *request));
    };
    const auto p = ask(incumbent, payload_.incumbent);
    if (!p) return note_failure(p.error().describe());
    const auto q = ask(candidate, payload_.candidate);
    if (!q) return note_failure(q.error().describe());
    pairs_[i].greedy = greedy_agreement(*p, *q);
    pairs_[i].unlisted_tokens = !p->lists_all || !q->lists_all;
    if (!p->lists_all) unlisted_[payload_.incumbent.kernel] += 1;
    if (!q->lists_all) unlisted_[payload_.candidate.kernel] += 1;
    if (can_rescore()) return true;
    if (!pairs_[i].unlisted_tokens) keep_agreement(i, compare_generated(*p, *q));
    const auto known = [](const Generated& answer) {
      return !answer.logprobs.empty() &&
             std::ranges::all_of(answer.logprobs, [](double x) { return std::isfinite(x); });
    };
    pairs_[i].has_logprobs = known(*p) && known(*q);
    return true;
  }

  /// The candidate against itself, alone and in a batch, on prompts on which it was compared with the
  /// incumbent: near ties are decided by the batch, so that greedy answers differ without another kernel.
  schema::Result<void> measure_floor() {
    std::vector<std::size_t> asked;
    std::set<std::uint64_t> keys;
    for (std::size_t i = 0; i < pairs_.size(); ++i)
      if (pairs_[i].greedy && keys.insert(pairs_[i].key_hash).second) asked.push_back(i);
    draw(asked, kFloorPrompts);
    std::vector<GreedyRequest> requests;
    for (const std::size_t i : asked) {
      requests.push_back(*greedy_request(mirrored_[i], kGreedyTokens));
      requests.back().body.update(logprobs_of(payload_.candidate, requests.back()));
    }
    auto found = TRY(ask_in_batches(requests, "noise floor of greedy answers"));
    for (std::size_t n = 0; n < asked.size(); ++n) pairs_[asked[n]].greedy_floor = found.agreement[n];
    return {};
  }

  schema::Result<BatchProbe> ask_in_batches(const std::vector<GreedyRequest>& requests, const char* words) {
    auto found =
        TRY(probe_batches(address_of(payload_.candidate), payload_.candidate.model, requests, payload_.seed,
                          payload_.outgoing, [&](std::size_t done, std::size_t total) {
                            folder_.report({done, total, "prompts", words});
                          }));
    for (const std::string& note : found.notes) (void)note_failure(note);
    return found;
  }

  /// The candidate's own answer, scored by both engines: tokens sampled by K_inf, as the estimators need.
  bool score(std::size_t i, EngineClient& incumbent, EngineClient& candidate) {
    const bool by_ids = payload_.incumbent.token_ids && payload_.candidate.token_ids;
    const auto scores = score_answer(prompt_of(mirrored_[i]), generated_of(mirrored_[i].candidate), by_ids,
                                     incumbent, candidate);
    return scores ? keep_pairs(i, *scores) : note_failure(scores.error().describe());
  }

  bool keep_pairs(std::size_t i, const AnswerScores& scores) {
    bool any = false;
    for (std::size_t t = 0; t < scores.log_q.size(); ++t) {
      if (!std::isfinite(scores.log_p[t]) || !std::isfinite(scores.log_q[t])) continue;
      realised_.push_back({static_cast<std::int64_t>(i), scores.log_p[t], scores.log_q[t]});
      any = true;
    }
    pairs_[i].has_logprobs = any;
    return any;
  }

  bool note_failure(const std::string& why) {
    if (notes_.size() < 10 && std::ranges::find(notes_, why) == notes_.end()) notes_.push_back(why);
    return false;
  }

  /// The candidate's greedy answers to mirrored prompts, one of each key, alone and in a batch.
  schema::Result<void> probe() {
    if (payload_.batch_prompts == 0) return {};
    std::vector<std::size_t> order(pairs_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return pairs_[i].order; });
    std::set<std::uint64_t> keys;
    std::vector<std::size_t> asked;
    for (const std::size_t i : order) {
      const auto excluded = stages::RequestOutcome::excluded;
      if (pairs_[i].incumbent == excluded || pairs_[i].candidate == excluded) continue;
      if (keys.insert(pairs_[i].key_hash).second && greedy_request(mirrored_[i], kProbeTokens))
        asked.push_back(i);
    }
    draw(asked, payload_.batch_prompts);
    std::vector<GreedyRequest> requests;
    for (const std::size_t i : asked) requests.push_back(*greedy_request(mirrored_[i], kProbeTokens));
    auto found = TRY(ask_in_batches(requests, "batch invariance"));
    for (std::size_t n = 0; n < asked.size(); ++n) pairs_[asked[n]].batch_variant = found.variant[n];
    return {};
  }

  void compare(std::size_t i) {
    if (!both_answered(i)) return;
    keep_agreement(
        i, compare_generated(generated_of(mirrored_[i].incumbent), generated_of(mirrored_[i].candidate)));
  }

  void keep_agreement(std::size_t i, const Agreement& agreement) {
    pairs_[i].equal_tokens = agreement.equal;
    pairs_[i].compared_tokens = agreement.compared;
  }

  /// Why log-probabilities were asked of no pair, or nothing.
  [[nodiscard]] std::string no_logprobs() const {
    if (!chosen_.empty() || pairs_.empty()) return {};
    if (can_rescore()) return "no mirrored request was a completion of one text that both engines answered";
    for (const auto* side : {&payload_.candidate, &payload_.incumbent}) {
      if (side->logprobs_by == LogprobsBy::none && !side->chat_logprobs)
        return fmt::format("the engine of the kernel {} gives no log-probabilities in any way that is known",
                           side->kernel);
    }
    return "no mirrored request was of a kind for which both engines give log-probabilities";
  }

  [[nodiscard]] const char* sampling_text() const {
    if (sampling_ == Sampling::unfiltered) return "none";
    if (sampling_ == Sampling::filtered) return "filtered, as the requests or the engine's own settings say";
    return "unknown: requests leave sampling parameters to the engine, which does not say what it takes";
  }

  schema::Result<std::string> table() {
    const auto contract = TRY(contract_of(payload_.contract));
    gpu::TargetTokenContext context;
    context.train.kernel = payload_.incumbent.kernel;
    context.inf.kernel = payload_.candidate.kernel;
    for (auto* side : {&context.train, &context.inf}) {
      side->checkpoint_digest = payload_.checkpoint;
      side->token_source = payload_.candidate.kernel;
      side->sampling_filter = sampling_text();
    }
    if (const auto& policy = contract.assumptions.policy) {
      context.ppo_clip = policy->ppo_clip;
      context.is_clip = policy->is_clip;
    }
    context.thresholds = stages::required_thresholds(contract);
    gpu::Corpus corpus;
    for (const auto i : chosen_) {
      gpu::SequenceInfo info;
      info.sequence = static_cast<std::int64_t>(i);
      info.slices = stages::parse_slice(pairs_[i].slice);
      // The pairs of one sticky key are one conversation or user: together one independent unit.
      info.cluster = fmt::format("{:016x}", pairs_[i].key_hash);
      corpus.by_sequence.emplace(info.sequence, corpus.sequences.size());
      corpus.sequences.push_back(std::move(info));
    }
    context.corpus = &corpus;
    auto measured = TRY(gpu::measure_target_tokens(realised_, context));
    return gpu::serialise(measured);
  }

  schema::Result<JobResult> result() {
    JobResult result;
    const auto salt = TRY(random_salt());
    const auto lines = pairs_to_jsonl(pairs_, pairs_.empty() ? std::string() : salt);
    TRY(folder_.put_result(result, "pairs", "pairs.jsonl", lines));
    if (!realised_.empty()) {
      const auto bytes = TRY(table());
      TRY(folder_.put_result(result, "table", "table.bin", bytes));
    }
    const auto with_logprobs = std::ranges::count_if(pairs_, &stages::ShadowPair::has_logprobs);
    const auto unlisted = std::ranges::count_if(pairs_, &stages::ShadowPair::unlisted_tokens);
    const nlohmann::json summary{{"pairs", pairs_.size()},
                                 {"wanted", chosen_.size()},
                                 {"with_logprobs", with_logprobs},
                                 {"can_rescore", can_rescore()},
                                 {"no_logprobs", no_logprobs()},
                                 {"unlisted_tokens", unlisted},
                                 {"notes", notes_}};
    result.summary = schema::canonical_json(summary);
    result.ok = true;
    return result;
  }

  const RescorePayload& payload_;
  const JobFolder& folder_;
  std::vector<route::MirroredPair> mirrored_;
  std::vector<stages::ShadowPair> pairs_;
  std::vector<std::size_t> chosen_;
  std::vector<gpu::TargetTokenPair> realised_;
  std::vector<std::string> notes_;
  std::map<std::string, std::size_t> unlisted_;  ///< by kernel, answers that do not list all of their tokens
  Sampling sampling_ = Sampling::unfiltered;     ///< of the tokens that were scored
};

}  // namespace

schema::Result<JobResult> run_rescore(const RescorePayload& payload, const JobFolder& folder) {
  return Rescore(payload, folder).run();
}

}  // namespace driftgate::jobs
