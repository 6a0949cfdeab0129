#include "gpu/measure_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

/// Approximate bytes of logits of both kernels in one batch: small enough for regular progress reports, large
/// enough to be worth starting threads.
constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxBatchRows = 8'192;

std::uint32_t backend_dtype(DType dtype) {
  if (dtype == DType::f32) return DRIFTGATE_F32;
  return dtype == DType::f16 ? DRIFTGATE_F16 : DRIFTGATE_BF16;
}

}  // namespace

driftgate_logits LogitsCursor::view(std::uint64_t row) const {
  const std::uint64_t stride = segment().row_bytes;
  return {segment().logits + (row - segment().first_row) * stride, stride, backend_dtype(segment().dtype), 0};
}

std::uint64_t batch_rows(const Capture& train) {
  const std::uint64_t pair_bytes = std::uint64_t{8} * train.vocabulary();
  return std::clamp<std::uint64_t>(kBatchBytes / pair_bytes, 1, kMaxBatchRows);
}

Result<void> attach_corpus(const Corpus& corpus, std::vector<SequenceInfo>& infos) {
  for (SequenceInfo& info : infos) {
    const SequenceInfo* known = corpus.find(info.sequence);
    if (known == nullptr) {
      return schema::fail(
          ErrorCode::not_comparable,
          fmt::format("the captures hold sequence {}, which the corpus does not: is it the corpus that "
                      "was captured?",
                      info.sequence));
    }
    info = *known;
  }
  return {};
}

Result<void> check_row(const Capture& capture, std::uint64_t row, const driftgate_row& result) {
  if (result.status == DRIFTGATE_ROW_OK || result.status == DRIFTGATE_ROW_NONFINITE) return {};
  const auto at = static_cast<std::size_t>(row);
  const std::string where = fmt::format("row {} (sequence {}, position {})", capture.first_row() + row,
                                        capture.sequence_ids()[at], capture.positions()[at]);
  if (result.status == DRIFTGATE_ROW_ALL_MASKED) {
    return schema::fail(ErrorCode::invalid_capture, where + ": every logit is -Infinity in both captures");
  }
  return schema::fail(
      ErrorCode::invalid_capture,
      fmt::format("{}: the target token {} is masked (-Infinity) in both captures, so neither kernel "
                  "can produce it; capture the logits before any filter or mask",
                  where, capture.token_ids()[at]));
}

MeasurementTable empty_table(const Capture& train, const Capture& inf, const MeasureOptions& options) {
  MeasurementTable table;
  table.train = train.identity();
  table.inf = inf.identity();
  table.vocabulary = train.vocabulary();
  table.top_k = options.top_k;
  table.ppo_clip = options.ppo_clip;
  table.is_clip = options.is_clip;
  table.has_tokens = train.has_tokens();
  table.thresholds = options.thresholds;
  return table;
}

}  // namespace driftgate::gpu
