#include "daemon/library/memory_rows.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "daemon/library/guard.hpp"
#include "daemon/library/objects.hpp"

namespace driftgate::library {

using gpu::DType;
using schema::ErrorCode;
using schema::Result;

namespace {

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64};
constexpr double kMaxLogprobError = 10;

std::unexpected<schema::Error> refuse(const std::string& name, std::string_view why) {
  return schema::fail(ErrorCode::invalid_argument, fmt::format("{}: {}", name, why));
}

bool given(const dg_matrix& matrix) {
  return matrix.data != nullptr;
}

const std::byte* bytes_at(const void* data) {
  return static_cast<const std::byte*>(data);
}

/// Checks that the rows are of one mode and returns their main matrix, or null.
Result<const dg_matrix*> matrix_of(const dg_rows& rows, const std::string& name) {
  const bool lists = given(rows.topk_ids) || given(rows.topk_logprobs);
  const int kinds =
      static_cast<int>(given(rows.logits)) + static_cast<int>(given(rows.hidden)) + static_cast<int>(lists);
  if (kinds > 1) return refuse(name, "only one of logits, hidden and topk may be given");
  if (lists && !(given(rows.topk_ids) && given(rows.topk_logprobs)))
    return refuse(name, "topk_ids and topk_logprobs are given together");
  if (given(rows.hidden) != (rows.head != nullptr))
    return refuse(name, "hidden states need a head, and a head hidden states");
  if (kinds == 0 && rows.logprobs == nullptr)
    return refuse(name, "one of logits, hidden, topk and logprobs is needed");
  if (given(rows.logits)) return &rows.logits;
  return given(rows.hidden) ? &rows.hidden : nullptr;
}

Result<void> check_scalars(const dg_rows& rows, const std::string& name) {
  if (rows.rows == 0) return refuse(name, "there are no rows");
  if (rows.rows > kMaxRows)
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("{}: {} rows; at most {}", name, rows.rows, kMaxRows));
  if (rows.memory > DG_MEMORY_CUDA)
    return refuse(name, "`memory` is neither that of the host nor of a CUDA device");
  if (rows.memory == DG_MEMORY_CUDA && !given(rows.logits))
    return schema::fail(ErrorCode::unsupported, name + ": only logits may be in the memory of a device");
  if (rows.matched > 1) return refuse(name, "`matched` is 0 or 1");
  if (!(rows.logprob_error >= 0 && rows.logprob_error <= kMaxLogprobError))
    return refuse(name, "logprob_error is a number from 0 to 10");
  return {};
}

/// Adds the lists of tokens.
Result<void> add_lists(const dg_rows& rows, gpu::MemoryRows& out) {
  for (const auto& [matrix, tensor] :
       {std::pair(&rows.topk_ids, "topk_ids"), {&rows.topk_logprobs, "topk_logprobs"}}) {
    const DType dtype = TRY(dtype_of(matrix->dtype, tensor));
    const std::uint64_t row_bytes = std::uint64_t{matrix->columns} * gpu::size_bytes(dtype);
    if (matrix->row_stride_bytes != 0 && matrix->row_stride_bytes != row_bytes)
      return refuse(out.name, fmt::format("the rows of {} must follow each other", tensor));
    out.tensors.push_back({tensor, dtype, {rows.rows, matrix->columns}, bytes_at(matrix->data)});
  }
  return {};
}

void add_columns(const dg_rows& rows, const std::vector<std::int64_t>& zeros, gpu::MemoryRows& out) {
  const std::int64_t* sequences = rows.sequences == nullptr ? zeros.data() : rows.sequences;
  out.tensors.push_back({"sequence_ids", DType::i64, {rows.rows}, bytes_at(sequences)});
  for (const auto& [values, tensor] : {std::pair(rows.positions, "positions"), {rows.tokens, "token_ids"}}) {
    if (values != nullptr) out.tensors.push_back({tensor, DType::i64, {rows.rows}, bytes_at(values)});
  }
  if (rows.logprobs != nullptr)
    out.tensors.push_back({"logprobs", DType::f32, {rows.rows}, bytes_at(rows.logprobs)});
}

}  // namespace

Result<DType> dtype_of(std::uint32_t dtype, std::string_view what) {
  if (dtype < std::size(kTypes)) return kTypes[dtype];
  return schema::fail(ErrorCode::invalid_argument,
                      fmt::format("the dtype {} of {} is none of DG_F32 ...", dtype, what));
}

std::uint32_t number_of(DType dtype) {
  for (std::uint32_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i] == dtype) return i;
  }
  return DG_F32;
}

Result<Metadata> metadata_of(const dg_identity* identity, std::string_view what) {
  const dg_identity read = TRY(read_optional(identity, what));
  Metadata out{{"capture.version", "1"}};
  const std::pair<const char*, dg_text> texts[] = {{"kernel", read.kernel},
                                                   {"checkpoint.digest", read.checkpoint_digest},
                                                   {"corpus.digest", read.corpus_digest},
                                                   {"token_source", read.token_source},
                                                   {"sampling_filter", read.sampling_filter}};
  for (const auto& [key, text] : texts) {
    std::string value = TRY(text_of(text, fmt::format("{} of {}", key, what), kMaxIdentityBytes));
    if (!value.empty()) out.emplace(key, std::move(value));
  }
  if (read.temperature != 0) out.emplace("temperature", fmt::format("{}", read.temperature));
  return out;
}

Result<GivenRows> read_rows(const dg_rows& given_rows, std::string name, const Metadata& metadata) {
  const dg_rows rows = TRY(read_struct(&given_rows, name));
  TRY(check_scalars(rows, name));
  GivenRows out;
  out.rows.name = std::move(name);
  out.rows.metadata = metadata;
  out.rows.on_device = rows.memory == DG_MEMORY_CUDA;
  const dg_matrix* matrix = TRY(matrix_of(rows, out.rows.name));
  if (matrix != nullptr) {
    const char* tensor = matrix == &rows.logits ? "logits" : "hidden";
    const DType dtype = TRY(dtype_of(matrix->dtype, tensor));
    out.rows.tensors.push_back({tensor, dtype, {rows.rows, matrix->columns}, bytes_at(matrix->data)});
    out.rows.row_stride_bytes = matrix->row_stride_bytes;
    if (rows.head != nullptr) out.rows.head = rows.head->head;
  } else if (given(rows.topk_ids)) {
    TRY(add_lists(rows, out.rows));
    if (rows.matched == 1) out.rows.metadata["support"] = "matched";
  }
  if (matrix == nullptr && rows.vocabulary != 0)
    out.rows.metadata["vocabulary"] = std::to_string(rows.vocabulary);
  if (rows.logprob_error > 0) out.rows.metadata["logprob_error"] = fmt::format("{}", rows.logprob_error);
  if (rows.sequences == nullptr) out.zeros.assign(static_cast<std::size_t>(rows.rows), 0);
  add_columns(rows, out.zeros, out.rows);
  return out;
}

}  // namespace driftgate::library
