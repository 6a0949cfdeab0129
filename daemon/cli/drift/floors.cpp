#include "daemon/cli/drift/floors.hpp"

#include <fmt/format.h>

#include "daemon/cli/contract/contract_file.hpp"
#include "gpu/capture/capture_digest.hpp"

namespace driftgate::cli {
namespace {

using schema::ErrorCode;
using schema::Result;

Result<void> add_digests(gpu::MeasurementTable& table, const gpu::Capture& first,
                         const gpu::Capture& second) {
  for (const auto& [capture, identity] : {std::pair(&first, &table.train), std::pair(&second, &table.inf)}) {
    auto digest = TRY(gpu::capture_digest(*capture));
    identity->file_digest = std::move(digest);
  }
  return {};
}

Result<std::optional<gpu::MeasurementTable>> measure_floor(const FloorArgs& args, stages::FloorSide side,
                                                           const gpu::Capture& own, const gpu::Corpus* corpus,
                                                           const gpu::MeasureOptions& options) {
  const std::vector<std::string>& paths = side == stages::FloorSide::train ? args.train : args.inf;
  if (paths.empty()) return std::nullopt;
  const std::string name = fmt::format("the {} floor", stages::to_string(side));
  if (paths.size() > 2) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("--floor-{} was given {} captures: give one, which is held against {}, or "
                    "two, which are held against each other",
                    stages::to_string(side), paths.size(), own.name()));
  }
  const auto second = gpu::Capture::open(paths.back(), args.heads);
  if (!second) return schema::wrap(second.error(), name);
  std::optional<gpu::Capture> first;
  if (paths.size() == 2) {
    auto opened = gpu::Capture::open(paths.front(), args.heads);
    if (!opened) return schema::wrap(opened.error(), name);
    first = std::move(*opened);
  }
  const gpu::Capture& a = first ? *first : own;
  if (a.name() == second->name()) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("{} is {} held against itself, which shows no noise: capture the same rows "
                    "a second time with another batch size",
                    name, a.name()));
  }
  TRY(stages::check_floor_identity(a.identity(), second->identity(), own.identity(), name));
  auto table = gpu::measure(a, *second, corpus, options);
  if (!table) return schema::wrap(table.error(), name);
  if (args.digests) {
    if (auto ok = add_digests(*table, a, *second); !ok) return schema::wrap(ok.error(), name);
  }
  return std::optional(std::move(*table));
}

}  // namespace

Result<MeasuredFloors> measure_floors(const FloorArgs& args, const gpu::Capture& train,
                                      const gpu::Capture& inf, const gpu::Corpus* corpus,
                                      const schema::Contract* contract) {
  gpu::MeasureOptions options;
  if (contract != nullptr) {
    options =
        options_for(*contract, corpus != nullptr ? corpus->sequences : std::vector<gpu::SequenceInfo>{});
    options.thresholds = stages::floor_thresholds(*contract);
  }
  options.top_rows = 0;
  MeasuredFloors floors;
  auto of_train = TRY(measure_floor(args, stages::FloorSide::train, train, corpus, options));
  floors.train = std::move(of_train);
  auto of_inf = TRY(measure_floor(args, stages::FloorSide::inf, inf, corpus, options));
  floors.inf = std::move(of_inf);
  return floors;
}

}  // namespace driftgate::cli
