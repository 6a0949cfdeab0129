#pragma once

#include <optional>
#include <string>

#include "daemon/jobs/job.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::pipeline {

/// Where a drift job left a table, and the digest that it stated.
struct TableFile {
  std::string path, digest;
};
struct TableFiles {
  TableFile drift;
  std::optional<TableFile> floor_train{}, floor_inf{};
};
[[nodiscard]] TableFiles table_files(const jobs::JobResult& drift, const std::string& folder);

/// A table and the bytes that are kept of it.
struct LoadedTable {
  gpu::MeasurementTable table;
  std::string bytes, digest;
};
struct LoadedTables {
  LoadedTable drift;
  std::optional<LoadedTable> floor_train{}, floor_inf{};
  /// Points into this object.
  [[nodiscard]] stages::Floors floors() const;
};

/// Reads the tables of a drift job and checks that each is what the job wrote (`corrupt`) and is of the
/// kernels that the contract names and of this checkpoint (`not_comparable`).
[[nodiscard]] schema::Result<LoadedTables> read_tables(const TableFiles& files,
                                                       const schema::Contract& contract,
                                                       const std::string& checkpoint);

}  // namespace driftgate::pipeline
