#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/drift/inputs.hpp"

namespace driftgate::cli {

/// The options of `driftgate drift`.
struct DriftArgs : drift::InputArgs {
  std::string json;                    ///< file to write JSON to, "-" = standard output; empty = none
  std::string rows_out;                ///< safetensors with every per-row metric; empty = none
  std::string device = "cpu";          ///< cpu, cuda, cuda:all, cuda:0,1
  std::uint32_t ranks = 0;             ///< 0 = one for each device, or the MPI job's
  std::string shard = "auto";          ///< how ranks share the work: auto, rows or vocab
  std::string exchange = "auto";       ///< between ranks: auto, threads, mpi, nccl
  double timeout_s = 60;               ///< of each wait for another rank
  std::string metrics = "all";         ///< all, or core: what one reading of a row yields
  std::string lm_head;                 ///< file with the head of hidden states; empty = as captured
  std::string checkpoint;              ///< folder or file that holds the head; empty = none
  std::uint32_t threads = 0;           ///< 0 = one for each processor
  std::uint32_t top_rows = 20;         ///< worst rows to report
  std::optional<std::uint32_t> top_k;  ///< of topk_overlap; absent = the contract's, or 10
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
