#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/report/report.hpp"

namespace driftgate::pipeline {

/// What a stage came to, with the bytes that are kept.
struct StageConclusion {
  stages::StageReport report;
  std::string report_json;
  std::string table;                        ///< bytes of the measurement table, or empty
  std::vector<std::string> floor_tables{};  ///< bytes of the noise floors' tables
  std::string inputs_digest;                ///< of the table, or of what replaces it
  std::string pairs;                        ///< shadow: the pair records, or empty
  std::uint32_t run = 0;                    ///< k: the α of this run is that of the k-th; 0 = none was spent
  /// What the verdict follows from beside the clauses: the canary's action, "failed" when nothing could be
  /// measured; "" = from the clauses alone.
  std::string action{};
  bool ended = true;  ///< false: the stage continues
};

}  // namespace driftgate::pipeline
