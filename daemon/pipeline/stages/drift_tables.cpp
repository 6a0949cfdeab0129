#include "daemon/pipeline/stages/drift_tables.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

schema::Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return schema::fail(ErrorCode::io, fmt::format("cannot open {}", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// What makes a table one of this promotion: the kernels that the contract names and the checkpoint.
schema::Result<void> check_identity(const gpu::MeasurementTable& table, const std::string& train_kernel,
                                    const std::string& inf_kernel, const std::string& checkpoint) {
  const auto same = [](const std::string& found, const std::string& wanted,
                       const char* what) -> schema::Result<void> {
    if (found.empty() || found == wanted) return {};
    return schema::fail(
        ErrorCode::not_comparable,
        fmt::format("the {} is '{}', this promotion needs '{}'; make captures with it", what, found, wanted));
  };
  auto train = same(table.train.kernel, train_kernel, "kernel of the train capture");
  if (!train) return train;
  TRY(same(table.inf.kernel, inf_kernel, "kernel of the inf capture"));
  return same(table.inf.checkpoint_digest, checkpoint, "checkpoint of the captures");
}

schema::Result<LoadedTable> read_table(const TableFile& file, const std::string& train_kernel,
                                       const std::string& inf_kernel, const std::string& checkpoint) {
  auto bytes = TRY(read_file(file.path));
  if (schema::sha256_digest(bytes) != file.digest) {
    return schema::fail(ErrorCode::corrupt, "the measurement table is not the one that the job wrote",
                        file.path);
  }
  auto table = TRY(gpu::deserialise(bytes));
  TRY(check_identity(table, train_kernel, inf_kernel, checkpoint));
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
  const auto& train = contract.train_kernel;
  const auto& inf = contract.inf_kernel;
  auto drift = TRY(read_table(files.drift, train, inf, checkpoint));
  LoadedTables tables{.drift = std::move(drift)};
  if (files.floor_train) {
    auto floor = read_table(*files.floor_train, train, train, checkpoint);
    if (!floor) return schema::wrap(floor.error(), "the train floor");
    tables.floor_train = std::move(*floor);
  }
  if (files.floor_inf) {
    auto floor = read_table(*files.floor_inf, inf, inf, checkpoint);
    if (!floor) return schema::wrap(floor.error(), "the inf floor");
    tables.floor_inf = std::move(*floor);
  }
  return tables;
}

}  // namespace driftgate::pipeline
