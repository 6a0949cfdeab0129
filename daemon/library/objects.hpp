#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/drift/drift_report.hpp"
#include "daemon/drift/inputs.hpp"
#include "daemon/library/driftgate.h"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "schema/contract/contract.hpp"

/// What the opaque handles of driftgate.h are.

struct dg_capture {
  driftgate::gpu::Capture capture;
};

struct dg_head {
  std::shared_ptr<const driftgate::gpu::fused::LmHead> head;
  dg_head_options given{};        ///< for writing it
  std::vector<std::byte> bias{};  ///< what `given` refers to; the weight stays in the caller's memory
};

struct dg_corpus {
  std::shared_ptr<const driftgate::gpu::Corpus> corpus;
};

struct dg_contract {
  std::shared_ptr<const driftgate::schema::Contract> contract;
};

struct dg_result {
  driftgate::gpu::MeasurementTable table;
  driftgate::drift::MeasuredFloors floors;
  driftgate::drift::DriftReport report;        ///< refers to the table and the floors
  std::optional<std::vector<double>> figures;  ///< of each row, where they were kept
  mutable std::mutex mutex;
  mutable std::map<std::uint32_t, std::string> texts;  ///< by format, once they are made
};
