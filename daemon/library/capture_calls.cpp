#include <fmt/format.h>

#include <memory>
#include <utility>

#include "daemon/library/driftgate.h"
#include "daemon/library/guard.hpp"
#include "daemon/library/memory_rows.hpp"
#include "daemon/library/objects.hpp"

using namespace driftgate;
using namespace driftgate::library;
using schema::ErrorCode;
using schema::Result;

namespace {

Result<std::shared_ptr<const gpu::fused::LmHead>> make_head(const dg_head_options& options) {
  TRY(needed(options.weight.data, "weight"));
  const gpu::DType dtype = TRY(dtype_of(options.weight.dtype, "weight"));
  const std::uint64_t row_bytes = std::uint64_t{options.weight.columns} * gpu::size_bytes(dtype);
  if (options.weight.row_stride_bytes != 0 && options.weight.row_stride_bytes != row_bytes)
    return schema::fail(ErrorCode::invalid_argument, "the rows of the weight must follow each other");
  std::vector<gpu::MemoryTensor> tensors = {{"lm_head.weight",
                                             dtype,
                                             {options.rows, options.weight.columns},
                                             static_cast<const std::byte*>(options.weight.data)}};
  if (options.bias != nullptr) {
    const gpu::DType of_bias = TRY(dtype_of(options.bias_dtype, "bias"));
    tensors.push_back({"lm_head.bias", of_bias, {options.rows}, static_cast<const std::byte*>(options.bias)});
  }
  Metadata metadata;
  if (options.scale != 0) metadata["lm_head.scale"] = fmt::format("{}", options.scale);
  if (options.soft_cap != 0) metadata["lm_head.soft_cap"] = fmt::format("{}", options.soft_cap);
  if (options.vocabulary != 0) metadata["lm_head.vocabulary"] = std::to_string(options.vocabulary);
  auto file = TRY(gpu::SafetensorsFile::of_memory("in memory", tensors, std::move(metadata)));
  return gpu::fused::LmHead::of_memory(std::move(file));
}

/// The caller may free the bias when the head is made.
Result<void> keep_bias(dg_head& head) {
  if (head.given.bias == nullptr) return {};
  const gpu::DType dtype = TRY(dtype_of(head.given.bias_dtype, "bias"));
  const auto* const first = static_cast<const std::byte*>(head.given.bias);
  head.bias.assign(first, first + head.given.rows * gpu::size_bytes(dtype));
  head.given.bias = head.bias.data();
  return {};
}

Result<gpu::fused::HeadSource> head_source(const dg_open_options* given) {
  const dg_open_options options = TRY(read_optional(given, "the options"));
  gpu::fused::HeadSource out;
  if (options.lm_head.size > 0) {
    auto path = TRY(path_of(options.lm_head, "lm_head"));
    out.lm_head = std::move(path);
  }
  if (options.checkpoint.size > 0) {
    auto path = TRY(path_of(options.checkpoint, "checkpoint"));
    out.checkpoint = std::move(path);
  }
  return out;
}

Result<void> describe(const gpu::Capture& capture, dg_capture_info& info) {
  // What is behind the members of this version is only written, by later ones: it may be anything.
  if (info.struct_size < sizeof(info) || info.struct_size > kMaxStructBytes)
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("struct_size of info is {}: set it to sizeof of the struct", info.struct_size));
  info.mode = static_cast<std::uint32_t>(capture.mode());
  info.rows = capture.rows();
  info.vocabulary = capture.vocabulary();
  info.columns = capture.columns();
  info.has_tokens = capture.has_tokens() ? 1 : 0;
  info.has_logprobs = capture.logprobs().empty() ? 0 : 1;
  info.pieces = static_cast<std::uint32_t>(capture.segments().size());
  info.reserved = 0;
  const gpu::CaptureIdentity& identity = capture.identity();
  info.identity = {sizeof(dg_identity),
                   0,
                   text_view(identity.kernel),
                   text_view(identity.checkpoint_digest),
                   text_view(identity.corpus_digest),
                   text_view(identity.token_source),
                   text_view(identity.sampling_filter),
                   identity.temperature};
  return {};
}

}  // namespace

static_assert(static_cast<int>(gpu::CaptureMode::full) == DG_MODE_FULL);
static_assert(static_cast<int>(gpu::CaptureMode::hidden) == DG_MODE_HIDDEN);
static_assert(static_cast<int>(gpu::CaptureMode::topk) == DG_MODE_TOPK);
static_assert(static_cast<int>(gpu::CaptureMode::matched) == DG_MODE_MATCHED);
static_assert(static_cast<int>(gpu::CaptureMode::realised) == DG_MODE_REALISED);

extern "C" {

dg_status dg_capture_open(dg_text path, const dg_open_options* options, dg_capture** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const std::string name = TRY(path_of(path, "the path of the capture"));
    const auto source = TRY(head_source(options));
    auto capture = TRY(gpu::Capture::open(name, source));
    const bool given = !source.lm_head.empty() || !source.checkpoint.empty();
    if (given && capture.mode() != gpu::CaptureMode::hidden)
      return schema::fail(ErrorCode::invalid_argument,
                          name + " contains no hidden states: leave lm_head and checkpoint out");
    *out = new dg_capture{std::move(capture)};
    return {};
  });
}

dg_status dg_capture_from_rows(const dg_rows* rows, const dg_identity* identity, dg_text name,
                               dg_capture** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(rows, "rows"));
    TRY(needed(out, "out"));
    std::string shown = TRY(text_of(name, "the name", kMaxIdentityBytes));
    const Metadata metadata = TRY(metadata_of(identity, "the identity"));
    const GivenRows given =
        TRY(read_rows(*rows, shown.empty() ? "rows in memory" : std::move(shown), metadata));
    auto capture = TRY(gpu::Capture::of_memory(given.rows));
    *out = new dg_capture{std::move(capture)};
    return {};
  });
}

void dg_capture_close(dg_capture* capture) {
  delete capture;
}

dg_status dg_capture_get_info(const dg_capture* capture, dg_capture_info* info, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(capture, "capture"));
    TRY(needed(info, "info"));
    return describe(capture->capture, *info);
  });
}

dg_status dg_capture_column(const dg_capture* capture, uint32_t column, const int64_t** values,
                            uint64_t* rows, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(capture, "capture"));
    TRY(needed(values, "values"));
    TRY(needed(rows, "rows"));
    if (column > DG_COLUMN_POSITIONS)
      return schema::fail(ErrorCode::invalid_argument, fmt::format("there is no column {}", column));
    const gpu::Capture& of = capture->capture;
    const std::span<const std::int64_t> found = column == DG_COLUMN_TOKENS      ? of.token_ids()
                                                : column == DG_COLUMN_SEQUENCES ? of.sequence_ids()
                                                                                : of.positions();
    *values = found.empty() ? nullptr : found.data();
    *rows = found.size();
    return {};
  });
}

dg_status dg_capture_matrix(const dg_capture* capture, uint32_t piece, dg_matrix* matrix, uint64_t* first,
                            uint64_t* rows, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(capture, "capture"));
    TRY(needed(matrix, "matrix"));
    TRY(needed(first, "first"));
    TRY(needed(rows, "rows"));
    const gpu::Capture& of = capture->capture;
    if (piece >= of.segments().size())
      return schema::fail(ErrorCode::invalid_argument, fmt::format("there is no piece {}", piece));
    if (gpu::is_partial(of.mode()))
      return schema::fail(ErrorCode::unsupported, of.name() + " has neither logits nor hidden states");
    const gpu::CaptureSegment& segment = of.segments()[piece];
    *matrix = {of.mode() == gpu::CaptureMode::full ? segment.logits : segment.hidden, segment.row_bytes,
               number_of(segment.dtype), of.columns()};
    *first = segment.first_row;
    *rows = segment.rows;
    return {};
  });
}

dg_status dg_head_from_memory(const dg_head_options* options, dg_head** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const dg_head_options given = TRY(read_struct(options, "the options"));
    auto head = TRY(make_head(given));
    auto made = std::make_unique<dg_head>(std::move(head), given);
    TRY(keep_bias(*made));
    *out = made.release();
    return {};
  });
}

void dg_head_close(dg_head* head) {
  delete head;
}

}  // extern "C"
