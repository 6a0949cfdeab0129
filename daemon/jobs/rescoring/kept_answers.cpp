#include "daemon/jobs/rescoring/kept_answers.hpp"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/route/control/telemetry_json.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr std::uint64_t kMostRead = std::uint64_t{4} << 20;  ///< bytes of one look

/// A kept answer that two engines may score.
struct Answer {
  route::MirroredPair kept;
  std::string prompt;
  Generated generated;
};

std::optional<Answer> answer_of(const std::string& line, bool by_ids) {
  auto kept = route::pair_from_line(line);
  if (!kept || pair_of(*kept).incumbent != stages::RequestOutcome::ok) return std::nullopt;
  Answer answer{.kept = {}, .prompt = prompt_of(*kept), .generated = generated_of(kept->incumbent)};
  answer.kept = std::move(*kept);
  const bool ids = by_ids && !answer.generated.prompt_ids.empty() && !answer.generated.ids.empty();
  const bool text = !answer.prompt.empty() && !answer.generated.text.empty();
  return ids || text ? std::optional(std::move(answer)) : std::nullopt;
}

/// The answer is at fault, not an engine: asking again would end in the same way.
bool is_of_answer(ErrorCode code) {
  return code == ErrorCode::not_comparable || code == ErrorCode::invalid_document ||
         code == ErrorCode::limit_exceeded;
}

EngineAddress address_of(const RescoreEngine& engine) {
  return {engine.base_url, engine.access};
}

schema::Result<AnswerScores> scores_of(const Answer& answer, bool by_ids, const RescoreEngine& reference,
                                       const RescoreEngine& served, const net::OutgoingPolicy& policy) {
  auto p = TRY(EngineClient::connect(address_of(reference), reference.model, reference.scoring, policy));
  auto q = TRY(EngineClient::connect(address_of(served), served.model, served.scoring, policy));
  return score_answer(answer.prompt, answer.generated, by_ids, p, q);
}

}  // namespace

schema::Result<NextAnswer> rescore_next(const KeptAnswers& kept, const RescoreEngine& reference,
                                        const RescoreEngine& served, const net::OutgoingPolicy& policy) {
  std::ifstream file(kept.path, std::ios::binary | std::ios::ate);
  if (!file)
    return schema::fail(ErrorCode::not_found,
                        fmt::format("the kept answers in {} cannot be opened", kept.path));
  const bool by_ids = reference.token_ids && served.token_ids;
  NextAnswer next;
  next.file_bytes = static_cast<std::uint64_t>(file.tellg());
  const std::uint64_t begin = kept.offset <= next.file_bytes ? kept.offset : 0;
  next.offset = begin;
  file.seekg(static_cast<std::streamoff>(begin));
  // A line without a line feed at its end is still being written.
  for (std::string line; next.offset - begin < kMostRead && std::getline(file, line) && !file.eof();) {
    const std::uint64_t after = next.offset + line.size() + 1;
    auto answer = answer_of(line, by_ids);
    const bool wanted = answer && kept.wants(answer->kept.key_hash);
    if (!wanted) {
      next.offset = after;
      ++next.passed_over;
      continue;
    }
    auto scores = scores_of(*answer, by_ids, reference, served, policy);
    if (!scores && !is_of_answer(scores.error().code)) {
      next.failed = std::move(scores).error();
      next.after_failed = after;
      return next;
    }
    next.offset = after;
    if (!scores) {
      ++next.passed_over;
      continue;
    }
    const auto defaults = TRY(ask_sampling_defaults(address_of(served), policy));
    next.scored = {.key_hash = answer->kept.key_hash,
                   .slice = answer->kept.slice,
                   .unfiltered = sampling_of(answer->kept, defaults) == Sampling::unfiltered,
                   .scores = std::move(*scores)};
    return next;
  }
  return next;
}

}  // namespace driftgate::jobs
