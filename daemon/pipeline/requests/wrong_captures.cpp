#include "daemon/pipeline/requests/wrong_captures.hpp"

#include <fmt/format.h>

#include <optional>

#include "daemon/jobs/capture_check.hpp"
#include "daemon/jobs/rooted_path.hpp"
#include "gpu/capture/corpus.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

/// One look at the captures of a stage.
class CaptureLook {
 public:
  CaptureLook(const StageCaptures& captures, const Settings& settings, std::string checkpoint)
      : captures_(captures), settings_(settings), checkpoint_(std::move(checkpoint)) {}

  /// The head of a capture that is there, whether it fits or not.
  std::optional<gpu::CaptureHead> look(const CaptureSource& source, const std::string& kernel,
                                       const char* side, const std::string& where) {
    if (!source.adapter.empty() || !jobs::open_below(source.uri, settings_.roots)) return std::nullopt;
    auto head = about(where, jobs::read_capture_head(source.uri, settings_.roots));
    if (!head) {
      found.push_back(head.error());
      return std::nullopt;
    }
    const jobs::CaptureOf wanted{kernel, checkpoint_,
                                 head->identity.corpus_digest.empty() ? std::string() : corpus_digest()};
    const auto name = fmt::format("the {} capture {}", side, source.uri);
    if (auto fits = about(where, jobs::check_capture(head->identity, wanted, name)); !fits)
      found.push_back(fits.error());
    return std::move(*head);
  }

  void look_at_floor(const std::optional<FloorCaptures>& floor, const std::string& kernel,
                     const std::string& where) {
    if (!floor) return;
    if (floor->first) (void)look(*floor->first, kernel, "first floor", where);
    (void)look(floor->second, kernel, "floor", where);
  }

  std::vector<schema::Error> found{};

 private:
  /// "" without a corpus, and for one that cannot be read, which is told elsewhere.
  const std::string& corpus_digest() {
    if (corpus_digest_) return *corpus_digest_;
    corpus_digest_.emplace();
    if (captures_.corpus.empty()) return *corpus_digest_;
    const auto text = jobs::read_below(captures_.corpus, settings_.roots, gpu::kMaxCorpusBytes);
    if (text) corpus_digest_ = schema::sha256_digest(*text);
    return *corpus_digest_;
  }

  const StageCaptures& captures_;
  const Settings& settings_;
  std::string checkpoint_;
  std::optional<std::string> corpus_digest_{};
};

}  // namespace

std::vector<schema::Error> wrong_captures(const StageCaptures& captures, const Settings& settings,
                                          const schema::Contract& contract, const std::string& checkpoint,
                                          const std::string& at) {
  CaptureLook look(captures, settings, checkpoint);
  const auto train = look.look(captures.train, contract.train_kernel, "train", at + "/train");
  const auto inf = look.look(captures.inf, contract.inf_kernel, "inf", at + "/inf");
  look.look_at_floor(captures.floor_train, contract.train_kernel, at + "/floor/train");
  look.look_at_floor(captures.floor_inf, contract.inf_kernel, at + "/floor/inf");
  const bool stated = train && inf && train->vocabulary > 0 && inf->vocabulary > 0;
  if (stated && train->vocabulary != inf->vocabulary) {
    look.found.push_back(
        {schema::ErrorCode::not_comparable,
         fmt::format(
             "the train capture has a vocabulary of {} and the inf capture {} one of {}: take both with "
             "the same tokenizer and head, cut to the tokens that both have",
             train->vocabulary, captures.inf.uri, inf->vocabulary),
         at + "/inf", nullptr});
  }
  return std::move(look.found);
}

}  // namespace driftgate::pipeline
