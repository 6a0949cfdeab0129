#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/drift/drift_command.hpp"
#include "gpu/ranks/collective.hpp"
#include "gpu/ranks/ranked_drift.hpp"

namespace driftgate::cli {

/// The ranks of one `driftgate drift`: this process alone, threads of it, or the processes of an MPI job.
class DriftRanks {
 public:
  /// In an MPI job every process calls this, and then the others in the same order.
  [[nodiscard]] static schema::Result<DriftRanks> start(const DriftArgs& args);
  DriftRanks(DriftRanks&&) noexcept;
  DriftRanks& operator=(DriftRanks&&) = delete;
  ~DriftRanks();

  /// Whether this process writes what is asked for.
  [[nodiscard]] bool root() const { return !job_ || job_->rank() == 0; }
  /// "cpu", "cpu, 4 ranks over mpi, vocab"
  [[nodiscard]] std::string describe() const;
  /// The table, at rank 0; nothing elsewhere. `exact` is what is compared bit by bit.
  [[nodiscard]] schema::Result<std::optional<gpu::MeasurementTable>> measure(
      const gpu::Capture& train, const gpu::Capture& inf, const gpu::Corpus* corpus,
      gpu::MeasureOptions options, const std::vector<std::string>& exact, const gpu::Progress& progress,
      const gpu::RowSink& sink);
  /// Prints the error where it concerns this rank, and tells the others.
  void fail(const schema::Error& error);
  /// Returns the exit code of rank 0 on every rank; after `fail` it ends the whole job. The last call.
  [[nodiscard]] int end(int exit_code);

 private:
  class Ticker;
  DriftRanks();
  [[nodiscard]] int agreed(int exit_code);

  std::string asked_;                 ///< devices in the words of the command line
  std::vector<std::string> devices_;  ///< one for each rank of this process
  gpu::RankOptions options_;
  std::unique_ptr<gpu::Collective> job_;  ///< of an MPI job
  std::unique_ptr<Ticker> ticker_;        ///< of its rank 0, once the table is there
  std::optional<schema::Error> trouble_;  ///< of a process that is part of an MPI job already
  std::uint32_t abandoned_ = 0;
  bool failed_ = false;
};

}  // namespace driftgate::cli
