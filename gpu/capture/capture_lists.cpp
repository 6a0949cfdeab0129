#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "gpu/capture/capture_modes.hpp"
#include "gpu/cpu/row_engine.hpp"

namespace driftgate::gpu {

using schema::Result;

namespace {

constexpr std::uint32_t kMaxListed = 16'384;  ///< tokens in one row's list

std::int64_t id_at(const CaptureSegment& segment, std::size_t index) {
  if (segment.id_dtype == DType::i32) {
    std::int32_t id = 0;
    std::memcpy(&id, segment.list_ids + index * sizeof(id), sizeof(id));
    return id;
  }
  std::int64_t id = 0;
  std::memcpy(&id, segment.list_ids + index * sizeof(id), sizeof(id));
  return id;
}

/// The tokens of one row whose log-probability is known.
void read_list(const CaptureSegment& segment, std::uint64_t row, std::uint32_t columns,
               std::vector<ListedToken>& out) {
  out.clear();
  for (std::uint32_t i = 0; i < columns; ++i) {
    const auto index = static_cast<std::size_t>(row) * columns + i;
    ListedToken token{id_at(segment, index), 0};
    std::memcpy(&token.logprob, segment.list_logprobs + index * sizeof(float), sizeof(float));
    if (token.logprob == std::numeric_limits<float>::infinity()) token.logprob = NAN;
    if (!is_unknown_logprob(token.logprob)) out.push_back(token);
  }
}

/// The ids in the list of a row, whether their log-probability is known or not, in order; −1 fills a short
/// row.
void read_ids(const Capture& capture, std::uint64_t row, std::vector<std::int64_t>& out) {
  const auto after = std::ranges::upper_bound(capture.segments(), row, {}, &CaptureSegment::first_row);
  const CaptureSegment& segment = *std::prev(after);
  const std::size_t first = static_cast<std::size_t>(row - segment.first_row) * capture.columns();
  out.clear();
  for (std::size_t i = 0; i < capture.columns(); ++i) {
    if (const std::int64_t id = id_at(segment, first + i); id >= 0) out.push_back(id);
  }
  std::ranges::sort(out);
}

/// The size of the vocabulary as the metadata states it; 0 when it does not.
Result<std::uint32_t> read_vocabulary(const SafetensorsFile& file) {
  const auto found = file.header().metadata.find("vocabulary");
  if (found == file.header().metadata.end()) return 0U;
  const std::string& text = found->second;
  std::uint32_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || end != text.data() + text.size() || size == 0 || size > cpu::kMaxVocabulary) {
    return invalid(file, fmt::format("metadata vocabulary '{}' is not a number from 1 to {}", text,
                                     cpu::kMaxVocabulary));
  }
  return size;
}

Result<CaptureMode> read_support(const SafetensorsFile& file) {
  const auto found = file.header().metadata.find("support");
  if (found == file.header().metadata.end() || found->second == "top-k") return CaptureMode::topk;
  if (found->second == "matched") return CaptureMode::matched;
  return invalid(file, "metadata support '" + found->second +
                           "' is neither 'top-k' (the most likely tokens) nor 'matched' (ids that the "
                           "caller chose)");
}

/// Checks the ids before they are used: each must be in the vocabulary and at most once in a row.
Result<void> check_ids(const CaptureSegment& segment, const CaptureLayout& layout) {
  std::vector<ListedToken> list;
  for (std::uint64_t row = 0; row < segment.rows; ++row) {
    read_list(segment, row, layout.columns, list);
    for (const ListedToken& token : list) {
      if (token.id >= 0 && (layout.vocabulary == 0 || token.id < layout.vocabulary)) continue;
      return invalid(segment.file, fmt::format("topk_ids of row {} holds {} with a log-probability, {}", row,
                                               token.id, outside_text(layout.vocabulary)));
    }
    std::ranges::sort(list, {}, &ListedToken::id);
    const auto twice = std::ranges::adjacent_find(list, {}, &ListedToken::id);
    if (twice == list.end()) continue;
    return invalid(segment.file, fmt::format("topk_ids of row {} holds token {} twice", row, twice->id));
  }
  return {};
}

}  // namespace

std::string_view to_string(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::full:
      return "full";
    case CaptureMode::hidden:
      return "hidden";
    case CaptureMode::topk:
      return "topk";
    case CaptureMode::matched:
      return "matched";
    case CaptureMode::realised:
      break;
  }
  return "realised";
}

Result<CaptureLayout> read_lists(CaptureSegment& segment) {
  const SafetensorsFile& file = segment.file;
  const TensorInfo* ids = file.find("topk_ids");
  const TensorInfo* logprobs = file.find("topk_logprobs");
  if (ids == nullptr || logprobs == nullptr) {
    return invalid(file, fmt::format("there is no tensor '{}' [N, K] beside '{}'",
                                     ids == nullptr ? "topk_ids" : "topk_logprobs",
                                     ids == nullptr ? "topk_logprobs" : "topk_ids"));
  }
  if (ids->dtype != DType::i32 && ids->dtype != DType::i64) {
    return invalid(file, fmt::format("tensor 'topk_ids' is {}; I32 or I64 is needed", to_string(ids->dtype)));
  }
  if (logprobs->dtype != DType::f32) {
    return invalid(file,
                   fmt::format("tensor 'topk_logprobs' is {}; F32 is needed", to_string(logprobs->dtype)));
  }
  for (const TensorInfo* tensor : {ids, logprobs}) {
    if (tensor->shape.size() == 2 && tensor->shape == ids->shape && tensor->shape[1] > 0 &&
        tensor->shape[1] <= kMaxListed)
      continue;
    return invalid(file, fmt::format("tensor '{}' has the shape {}; [N, K] with K from 1 to {} is needed, "
                                     "the same for topk_ids and topk_logprobs",
                                     tensor->name, shape_text(*tensor), kMaxListed));
  }
  auto mode = TRY(read_support(file));
  auto vocabulary = TRY(read_vocabulary(file));
  segment.rows = ids->shape[0];
  segment.id_dtype = ids->dtype;
  segment.list_ids = file.bytes(*ids).data();
  segment.list_logprobs = file.bytes(*logprobs).data();
  const CaptureLayout layout{mode, vocabulary, static_cast<std::uint32_t>(ids->shape[1])};
  TRY(check_ids(segment, layout));
  return layout;
}

Result<CaptureLayout> read_realised(CaptureSegment& segment) {
  const SafetensorsFile& file = segment.file;
  const TensorInfo& logprobs = *file.find("logprobs");
  if (logprobs.shape.size() != 1) {
    return invalid(file, "tensor 'logprobs' has the shape " + shape_text(logprobs) + "; [N] is needed");
  }
  if (file.find("token_ids") == nullptr) {
    return invalid(
        file,
        "tensor 'logprobs' holds log-probabilities of target tokens, but there is no tensor 'token_ids' [N]");
  }
  auto vocabulary = TRY(read_vocabulary(file));
  segment.rows = logprobs.shape[0];
  return CaptureLayout{CaptureMode::realised, vocabulary, 0};
}

void Capture::list(std::uint64_t row, std::vector<ListedToken>& out) const {
  const auto after = std::ranges::upper_bound(segments_, row, {}, &CaptureSegment::first_row);
  const CaptureSegment& segment = *std::prev(after);
  out.clear();
  if (segment.list_ids != nullptr) read_list(segment, row - segment.first_row, layout_.columns, out);
}

Result<void> compare_lists(const Capture& train, const Capture& inf) {
  std::vector<std::int64_t> a, b;
  for (std::uint64_t row = 0; row < train.rows(); ++row) {
    read_ids(train, row, a);
    read_ids(inf, row, b);
    if (a == b) continue;
    return schema::fail(
        schema::ErrorCode::not_comparable,
        fmt::format("the captures cannot be compared: the ids of matched lists differ first in row {}", row));
  }
  return {};
}

}  // namespace driftgate::gpu
