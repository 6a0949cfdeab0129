#include <fmt/format.h>

#include <algorithm>

#include "gpu/capture/safetensors.hpp"
#include "gpu/capture/unknown_logprob.hpp"
#include "gpu/ingest/engine_rows.hpp"

namespace driftgate::gpu::ingest {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr auto kUnknown = static_cast<float>(kUnknownLogprob);
constexpr std::size_t kRowsAtOnce = 4'096;

std::map<std::string, std::string> metadata_of(const EngineRows& rows, const CaptureLabels& labels) {
  std::map<std::string, std::string> out{{"capture.version", "1"},
                                         {"kernel", labels.kernel},
                                         {"checkpoint.digest", labels.checkpoint_digest},
                                         {"corpus.digest", labels.corpus_digest},
                                         {"token_source", labels.token_source},
                                         {"sampling_filter", labels.sampling_filter},
                                         {"temperature", labels.temperature}};
  std::erase_if(out, [](const auto& item) { return item.second.empty(); });
  const std::uint32_t vocabulary = labels.vocabulary > 0 ? labels.vocabulary : rows.vocabulary;
  if (vocabulary > 0) out["vocabulary"] = std::to_string(vocabulary);
  if (rows.logprob_error > 0) out["logprob_error"] = fmt::format("{}", rows.logprob_error);
  if (labels.matched) out["support"] = "matched";
  return out;
}

Result<void> check_rows(const EngineRows& rows, const CaptureLabels& labels) {
  if (rows.rows.empty()) {
    return schema::fail(ErrorCode::invalid_argument,
                        "there is no row with a log-probability: nothing was written");
  }
  if (labels.vocabulary == 0) return {};
  for (const EngineRow& row : rows.rows) {
    std::int64_t largest = row.token;
    for (const ListedToken& token : row.list) largest = std::max(largest, token.id);
    if (largest < labels.vocabulary) continue;
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("token {} of sequence {}, position {} is outside the vocabulary of {}",
                                    largest, row.sequence, row.position, labels.vocabulary));
  }
  return {};
}

/// Writes a column of one value for each row.
template <typename T, typename Value>
Result<void> write_column(SafetensorsWriter& writer, std::size_t index, const EngineRows& rows, Value value) {
  std::vector<T> column;
  column.reserve(rows.rows.size());
  for (const EngineRow& row : rows.rows) column.push_back(value(row));
  return writer.write(index, 0, std::as_bytes(std::span<const T>(column)));
}

Result<void> write_lists(SafetensorsWriter& writer, const EngineRows& rows, std::size_t columns) {
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  for (std::size_t first = 0; first < rows.rows.size(); first += kRowsAtOnce) {
    ids.clear();
    values.clear();
    const std::size_t end = std::min(rows.rows.size(), first + kRowsAtOnce);
    for (std::size_t row = first; row < end; ++row) {
      const auto& list = rows.rows[row].list;
      for (std::size_t i = 0; i < columns; ++i) {
        ids.push_back(i < list.size() ? static_cast<std::int32_t>(list[i].id) : -1);
        values.push_back(i < list.size() ? list[i].logprob : kUnknown);
      }
    }
    const std::uint64_t offset = std::uint64_t{first} * columns * 4;
    TRY(writer.write(0, offset, std::as_bytes(std::span<const std::int32_t>(ids))));
    TRY(writer.write(1, offset, std::as_bytes(std::span<const float>(values))));
  }
  return {};
}

}  // namespace

Result<void> write_capture(const EngineRows& rows, const CaptureLabels& labels, const std::string& path) {
  TRY(check_rows(rows, labels));
  std::size_t columns = 0;
  for (const EngineRow& row : rows.rows) columns = std::max(columns, row.list.size());
  const std::uint64_t count = rows.rows.size();
  if (count * columns > kMaxKept) {  // every row has as many columns as the longest list
    return schema::fail(
        ErrorCode::limit_exceeded,
        fmt::format("room for {} tokens for each of {} rows is more than {} in all: import in "
                    "parts, or ask the engine for shorter lists",
                    columns, count, kMaxKept));
  }
  std::vector<SafetensorsWriter::Tensor> tensors;
  if (columns > 0) {
    tensors.push_back({"topk_ids", DType::i32, {count, columns}});
    tensors.push_back({"topk_logprobs", DType::f32, {count, columns}});
  }
  const std::size_t next = tensors.size();
  for (const char* name : {"sequence_ids", "positions", "token_ids"})
    tensors.push_back({name, DType::i64, {count}});
  tensors.push_back({"logprobs", DType::f32, {count}});
  auto writer = TRY(SafetensorsWriter::create(path, tensors, metadata_of(rows, labels)));
  if (columns > 0) {
    TRY(write_lists(writer, rows, columns));
  }
  Result<void> ok =
      write_column<std::int64_t>(writer, next, rows, [](const EngineRow& r) { return r.sequence; });
  if (ok)
    ok = write_column<std::int64_t>(writer, next + 1, rows, [](const EngineRow& r) { return r.position; });
  if (ok) ok = write_column<std::int64_t>(writer, next + 2, rows, [](const EngineRow& r) { return r.token; });
  if (ok)
    ok = write_column<float>(writer, next + 3, rows,
                             [](const EngineRow& r) { return r.logprob.value_or(kUnknown); });
  if (!ok) return ok;
  return writer.finish();
}

}  // namespace driftgate::gpu::ingest
