#include "daemon/cli/drift/drift_rows.hpp"

#include <string>
#include <vector>

namespace driftgate::cli {

using schema::Result;

Result<RowsFile> RowsFile::create(const std::filesystem::path& path, const gpu::Capture& train,
                                  const gpu::Capture& inf) {
  std::vector<gpu::SafetensorsWriter::Tensor> tensors;
  for (std::size_t metric = 0; metric < gpu::kRowMetricCount; ++metric) {
    tensors.push_back({std::string(schema::to_string(static_cast<schema::Metric>(metric))),
                       gpu::DType::f64,
                       {train.rows()}});
  }
  struct Column {
    const char* name;
    std::span<const std::int64_t> values;
  };
  std::vector<Column> columns = {{"sequence_ids", train.sequence_ids()}, {"positions", train.positions()}};
  if (train.has_tokens()) columns.push_back({"token_ids", train.token_ids()});
  for (const Column& column : columns) tensors.push_back({column.name, gpu::DType::i64, {train.rows()}});
  auto writer = TRY(gpu::SafetensorsWriter::create(
      path, tensors, {{"train.kernel", train.identity().kernel}, {"inf.kernel", inf.identity().kernel}}));
  std::size_t at = gpu::kRowMetricCount;
  for (const Column& column : columns) {
    TRY(writer.write(at++, 0, std::as_bytes(column.values)));
  }
  return RowsFile(std::move(writer));
}

Result<void> RowsFile::write(std::uint64_t first_row, std::span<const driftgate_row> rows) {
  std::vector<double> column(rows.size());
  for (std::size_t metric = 0; metric < gpu::kRowMetricCount; ++metric) {
    for (std::size_t i = 0; i < rows.size(); ++i) column[i] = rows[i].values[metric];
    const auto bytes = std::as_bytes(std::span<const double>(column));
    TRY(writer_.write(metric, first_row * sizeof(double), bytes));
  }
  return {};
}

}  // namespace driftgate::cli
