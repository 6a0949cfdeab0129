#include "daemon/pipeline/stages/drift_tables.hpp"

#include "daemon/base/read_file.hpp"
#include "daemon/jobs/capture_check.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

schema::Result<LoadedTable> read_table(const TableFile& file, const std::string& train_kernel,
                                       const std::string& inf_kernel, const std::string& checkpoint) {
  auto bytes = TRY(base::read_file(file.path));
  if (schema::sha256_digest(bytes) != file.digest) {
    return schema::fail(ErrorCode::corrupt, "the measurement table does not match its digest", file.path);
  }
  auto table = TRY(gpu::deserialise(bytes));
  // The job has checked it before it measured, unless an earlier version of this program began it.
  TRY(jobs::check_capture(table.train, {train_kernel, checkpoint}, "the train capture"));
  TRY(jobs::check_capture(table.inf, {inf_kernel, checkpoint}, "the inf capture"));
  return LoadedTable{std::move(table), std::move(bytes), file.digest};
}

}  // namespace

TableFiles table_files(const jobs::JobResult& drift, const std::string& folder) {
  const auto file = [&](const char* name) {
    return TableFile{folder + "/" + drift.files.at(name), drift.digests.at(name)};
  };
  TableFiles files{.drift = file("table")};
  if (drift.files.contains("floor_train")) files.floor_train = file("floor_train");
  if (drift.files.contains("floor_inf")) files.floor_inf = file("floor_inf");
  return files;
}

stages::Floors LoadedTables::floors() const {
  stages::Floors floors;
  if (floor_train) floors.train = {&floor_train->table, floor_train->digest};
  if (floor_inf) floors.inf = {&floor_inf->table, floor_inf->digest};
  return floors;
}

schema::Result<LoadedTables> read_tables(const TableFiles& files, const schema::Contract& contract,
                                         const std::string& checkpoint) {
  auto drift = TRY(read_table(files.drift, contract.train_kernel, contract.inf_kernel, checkpoint));
  LoadedTables tables{.drift = std::move(drift)};
  const auto read_floor = [&](const std::optional<TableFile>& file, const std::string& kernel,
                              std::optional<LoadedTable>& floor, const char* name) -> schema::Result<void> {
    if (!file) return {};
    auto read = read_table(*file, kernel, kernel, checkpoint);
    if (!read) return schema::wrap(read.error(), name);
    floor = std::move(*read);
    return {};
  };
  TRY(read_floor(files.floor_train, contract.train_kernel, tables.floor_train, "the train floor"));
  TRY(read_floor(files.floor_inf, contract.inf_kernel, tables.floor_inf, "the inf floor"));
  return tables;
}

}  // namespace driftgate::pipeline
