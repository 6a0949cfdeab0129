#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "daemon/net/outgoing.hpp"

namespace driftgate::pipeline {

/// A program that produces a capture. Words may hold {out}, {corpus}, {engine_url}, {engine_key_file},
/// {engine_ca_file} (their paths), {model}, {kernel}, {checkpoint} (the folder's path) and {train} (the path
/// of the train capture).
struct Adapter {
  std::vector<std::string> argv;  ///< argv[0] is an absolute path
  jobs::JobLimits limits;
};

/// What the daemon's settings say to the pipeline. Times in ms.
struct Settings {
  std::vector<std::string> roots;  ///< captures, corpora and checkpoints lie below these folders
  std::map<std::string, Adapter> adapters;
  net::OutgoingPolicy outgoing;
  std::string engine_files;  ///< folder of the key files and CA files that registrations name; absolute
  jobs::JobLimits drift_limits, rescore_limits;
  std::uint32_t job_threads = 0;      ///< of a drift job; 0 = all cores
  std::uint32_t job_ranks = 1;        ///< that measure a drift job together
  std::string job_shard = "auto";     ///< what they share out: rows, vocab or auto
  std::string job_device = "cpu";     ///< what each measures on: cpu or cuda
  std::uint32_t max_rescored = 256;   ///< most shadow pairs that are rescored
  std::uint32_t max_attempts = 3;     ///< of a stage, when it ends in an error that may pass
  std::int64_t retry_ms = 5'000;      ///< before the second attempt; doubles
  std::int64_t telemetry_ms = 500;    ///< between two looks for closed windows
  std::int64_t breakers_ms = 250;     ///< between two looks at the breakers of engines
  std::int64_t heartbeat_ms = 1'000;  ///< below the data plane's lease
  std::int64_t pause_deadline_ms = 86'400'000;
  std::int64_t inconclusive_deadline_ms = 86'400'000;
  std::int64_t commit_patience_ms = 100;  ///< after it, 0% traffic is applied before its COMMIT is done
  std::int64_t clock_step_ms = 5'000;     ///< a larger step of the wall clock is logged
  std::uint32_t sample_bp = 2'000;        ///< mirrored while a `sample` order is in force
  std::uint64_t sample_token_budget = 1'000'000;  ///< most tokens that it may mirror in one stage
  std::vector<std::string> blackouts;  ///< see daemon/schedule/blackout.hpp
  std::string code_version;
};

}  // namespace driftgate::pipeline
