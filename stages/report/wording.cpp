#include "stages/report/wording.hpp"

#include <fmt/format.h>

namespace driftgate::stages {
namespace {

template <typename... Fs>
struct Overload : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overload(Fs...) -> Overload<Fs...>;

}  // namespace

std::string figure(double value) {
  return fmt::format("{:.4g}", value);
}

std::string count_text(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string percent(double share) {
  return fmt::format("{:.4g}%", share * 100);
}

std::string on_slice(const schema::SliceWhere& where) {
  return where.empty() ? std::string{} : " on " + schema::slice_text(where);
}

std::string subject_text(const schema::Clause& clause) {
  return std::visit(
      Overload{
          [](const schema::MetricSubject& s) {
            const std::string name(schema::to_string(s.metric));
            const bool tokens = s.aggregate == schema::Aggregate::mean;
            if (s.band && tokens) return fmt::format("{} {} over tokens", name, schema::to_string(*s.band));
            if (s.band) return name + " " + std::string(schema::to_string(*s.band));
            return s.aggregate ? std::string(schema::to_string(*s.aggregate)) + " " + name : name;
          },
          [](const schema::BoundSubject& s) {
            return fmt::format("{} bound per {}", schema::to_string(s.bound),
                               s.horizon == schema::Horizon::token ? "token" : "sequence");
          },
          [](const schema::OutcomeSubject& s) { return "outcome " + s.outcome; },
          [](const schema::ExactSubject& s) { return "equal " + std::string(schema::to_string(s.tensor)); },
          [](const schema::SignalSubject& s) {
            return "signal " + std::string(schema::to_string(s.signal));
          }},
      clause.subject);
}

std::string_view share_of(schema::QuantileOver over) {
  if (over == schema::QuantileOver::sequences) return "sequences with a mean";
  return over == schema::QuantileOver::rows ? "rows with" : "rows in an average sequence with";
}

schema::ClauseVerdict begin_verdict(const schema::Clause& clause, const schema::SliceWhere& where,
                                    schema::SliceRole role, double alpha, std::uint64_t seed) {
  schema::ClauseVerdict verdict;
  verdict.clause = clause.address();
  verdict.severity = clause.severity;
  verdict.where = where;
  verdict.role = role;
  verdict.verdict = schema::Verdict::inconclusive;
  verdict.alpha = alpha;
  verdict.seed = seed;
  return verdict;
}

schema::ClauseVerdict error_verdict(schema::ClauseVerdict verdict, std::string why) {
  verdict.verdict = schema::Verdict::error;
  verdict.rule = schema::VerdictRule::cannot;
  verdict.message = std::move(why);
  return verdict;
}

}  // namespace driftgate::stages
