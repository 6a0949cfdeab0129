#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "stages/guard/rescore_watch.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"

namespace driftgate::simulation {
namespace {

using stages::Random;
using stages::RescoreWatch;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kDayUs = 86'400 * kSecondUs;
constexpr std::int64_t kYearUs = 365 * kDayUs;
constexpr std::int64_t kArmedUs = 20'000 * kDayUs;
constexpr std::int64_t kEveryUs = 60 * kSecondUs;  ///< between two answers
constexpr int kTokens = 32;                        ///< of an answer
/// Of a guard with tests on all traffic and on slices, and with golden probes.
constexpr double kShare = stages::kRescoringShare / (stages::kWholeShare + stages::kSliceShare +
                                                     stages::kProbeShare + stages::kRescoringShare);

constexpr const char* kRescored = "rescored answers";
constexpr const char* kMethod = "e-detector on the estimated tv of one answer a minute";

/// One clause, on the total variation of all answers.
schema::Contract contract_of(double limit, std::int64_t mean_time_us) {
  schema::Contract contract;
  contract.name = "guard";
  contract.digest = "sha256:guard";
  schema::Clause tv;
  tv.family = schema::Family::statistical;
  tv.id = "tv";
  tv.subject = schema::MetricSubject{schema::Metric::tv, schema::Aggregate::sequence_mean};
  tv.limits.max = limit;
  tv.stages = schema::stage_bit(schema::Stage::statistical_slice);
  contract.clauses = {tv};
  contract.guard.emplace();
  contract.guard->mean_time_between_false_alarms_ms = mean_time_us / 1'000;
  contract.guard->rescoring.emplace();
  return contract;
}

/// Kernels whose total variation differs from answer to answer, by a log-normal factor, and from hour to
/// hour.
struct Drift {
  double mean = 0;   ///< of the total variation
  double cv = 0.5;   ///< coefficient of variation between answers
  double swing = 0;  ///< by this part of it up and down each day
};

/// Tokens that the served kernel draws: one of two with probability ½, of which the training kernel gives t
/// less to the first and t more to the second, so that their total variation is t.
class Answers {
 public:
  Answers(const Drift& drift, std::uint64_t seed) : drift_(drift), random_(seed) {}

  stages::RescoredAnswer next() {
    now_us_ += kEveryUs;
    const double t = variation();
    stages::RescoredAnswer answer{
        .key_hash = random_.next(), .slice = {}, .unfiltered = true, .log_p = {}, .log_q = {}};
    for (int i = 0; i < kTokens; ++i) {
      const bool first = random_.uniform() < 0.5;
      answer.log_q.push_back(std::log(0.5));
      answer.log_p.push_back(std::log(first ? 0.5 - t : 0.5 + t));
    }
    answer.at_us = now_us_;
    return answer;
  }
  void set_mean(double mean) { drift_.mean = mean; }

 private:
  double variation() {
    const double sigma = std::sqrt(std::log1p(drift_.cv * drift_.cv));
    const double z = stages::normal_quantile(std::clamp(random_.uniform(), 1e-12, 1 - 1e-12));
    const double day =
        6.283185307179586 * static_cast<double>(now_us_ % kDayUs) / static_cast<double>(kDayUs);
    const double mean = drift_.mean * (1 + drift_.swing * std::sin(day));
    return std::min(0.49, mean * std::exp(sigma * z - sigma * sigma / 2));
  }

  Drift drift_;
  Random random_;
  std::int64_t now_us_ = kArmedUs;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Quiet {
  const char* name;
  Drift drift;
  double limit;
  Claim claim;
};

/// A guard of 500 answers, so that false alarms can be counted: the guarantee does not depend on the length.
void false_alarms(const Effort& effort, Figures& out) {
  constexpr int kInMean = 500;
  const std::uint64_t runs = effort.runs(2'000);
  const Quiet worlds[] = {{"drift at the limit of 0.02, answers that differ by 50%",
                           {.mean = 0.02, .cv = 0.5},
                           0.02,
                           Claim::exact},
                          {"drift at the limit of 0.02, answers that differ by 150%",
                           {.mean = 0.02, .cv = 1.5},
                           0.02,
                           Claim::exact},
                          {"drift at the limit of 0.0002", {.mean = 0.0002, .cv = 0.5}, 0.0002, Claim::exact},
                          {"drift at half of the limit", {.mean = 0.01, .cv = 1}, 0.02, Claim::exact}};
  for (const Quiet& world : worlds) {
    const auto contract = contract_of(world.limit, kInMean * kEveryUs);
    std::uint64_t alarms = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      RescoreWatch watch(contract, 1, kArmedUs);
      Answers answers(world.drift, stages::mix64(effort.seed * 49'979'687 + run));
      bool alarm = false;
      for (int i = 0; i < kInMean / 5 && !alarm; ++i) {
        (void)watch.observe(answers.next());
        alarm = !watch.decide().alarms.empty();
      }
      alarms += alarm ? 1 : 0;
    }
    out.push_back({kRescored, kMethod, world.name, "false alarms within a fifth of the stated mean time",
                   static_cast<double>(alarms) / static_cast<double>(runs), runs, 0.2, world.claim, ""});
  }
}

struct Change {
  const char* name;
  double limit, before, after;
  double most_answers;  ///< claimed median; 0: none
};

void found_changes(const Effort& effort, Figures& out) {
  constexpr int kBefore = 200, kMost = 2'000;
  const std::uint64_t runs = effort.runs(200);
  const Change changes[] = {
      {"half of the limit becomes 1.1 times it", 0.02, 0.01, 0.022, 0},
      {"half of the limit becomes 1.25 times it", 0.02, 0.01, 0.025, 0},
      {"half of the limit becomes 1.5 times it", 0.02, 0.01, 0.03, 80},
      {"half of the limit becomes twice it (int8 swapped for int4)", 0.02, 0.01, 0.04, 45},
      {"half of the limit becomes four times it", 0.02, 0.01, 0.08, 25},
      {"a kernel that only rounds otherwise (1e-6, limit 1e-5), one step of fine-tuning (1e-4)", 1e-5, 1e-6,
       1e-4, 20},
      {"int8 (0.01, limit 0.02), one step of fine-tuning that adds 0.001", 0.02, 0.01, 0.011, 0}};
  for (const Change& change : changes) {
    const auto contract = contract_of(change.limit, kYearUs);
    std::vector<double> needed;
    std::uint64_t found = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      RescoreWatch watch(contract, kShare, kArmedUs);
      Answers answers({.mean = change.before}, stages::mix64(effort.seed * 67'867'967 + run));
      for (int i = 0; i < kBefore; ++i) (void)watch.observe(answers.next());
      (void)watch.decide();
      answers.set_mean(change.after);
      int count = 0;
      bool alarm = false;
      for (; count < kMost && !alarm; ++count) {
        (void)watch.observe(answers.next());
        alarm = !watch.decide().alarms.empty();
      }
      needed.push_back(count);
      found += alarm ? 1 : 0;
    }
    const bool claimed = change.most_answers > 0;
    out.push_back({kRescored, kMethod, change.name, "found within 2,000 answers",
                   static_cast<double>(found) / static_cast<double>(runs), runs,
                   claimed ? std::optional(0.95) : std::nullopt, claimed ? Claim::at_least : Claim::figure,
                   ""});
    out.push_back({kRescored, kMethod, change.name, "answers until the alarm (median)", median(needed), runs,
                   claimed ? std::optional(change.most_answers) : std::nullopt,
                   claimed ? Claim::exact : Claim::figure, ""});
  }
}

}  // namespace

void rescored_answers(const Effort& effort, Figures& out) {
  false_alarms(effort, out);
  found_changes(effort, out);
}

}  // namespace driftgate::simulation
