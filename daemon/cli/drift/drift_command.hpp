#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/drift/inputs.hpp"

namespace driftgate::cli {

/// The options of `driftgate drift`.
struct DriftArgs : drift::InputArgs, drift::MeasureArgs {
  std::string json;                    ///< file to write JSON to, "-" = standard output; empty = none
  std::string rows_out;                ///< safetensors with every per-row metric; empty = none
  std::uint32_t ranks = 0;             ///< 0 = one for each device, or the MPI job's
  std::string shard = "auto";          ///< how ranks share the work: auto, rows or vocab
  std::string exchange = "auto";       ///< between ranks: auto, threads, mpi, nccl
  double timeout_s = 60;               ///< of each wait for another rank
  std::string lm_head;                 ///< file with the head of hidden states; empty = as captured
  std::string checkpoint;              ///< folder or file that holds the head; empty = none
  std::string certificate;             ///< page of Markdown to write; empty = none
  std::vector<std::string> reports;    ///< FORMAT=FILE each: junit, markdown or html
  std::string version;                 ///< of the program, for the certificate
};

/// Measures the drift between two captures, decides the clauses of the contract that captures can decide
/// and prints the report. Exit status: 0 pass or nothing demanded, 1 violated, 3 inconclusive, 4 error,
/// 64 usage, 74 input or output. Under mpirun each process is a rank: rank 0 prints the report, and all have
/// its exit status.
[[nodiscard]] int drift_command(const DriftArgs& args);

}  // namespace driftgate::cli
