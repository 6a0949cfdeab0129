#include "daemon/cli/floors.hpp"

#include <fmt/format.h>

#include "daemon/cli/contract_file.hpp"

namespace driftgate::cli {
namespace {

using schema::ErrorCode;
using schema::Result;

Result<std::optional<gpu::MeasurementTable>> measure_floor(const std::vector<std::string>& paths,
                                                           const gpu::fused::HeadSource& heads,
                                                           stages::FloorSide side, const gpu::Capture& own,
                                                           const gpu::Corpus* corpus,
                                                           const gpu::MeasureOptions& options) {
  if (paths.empty()) return std::nullopt;
  const std::string name = fmt::format("the {} floor", stages::to_string(side));
  if (paths.size() > 2) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("--floor-{} was given {} captures: give one, which is held against {}, or "
                    "two, which are held against each other",
                    stages::to_string(side), paths.size(), own.name()));
  }
  const auto second = gpu::Capture::open(paths.back(), heads);
  if (!second) return schema::wrap(second.error(), name);
  std::optional<gpu::Capture> first;
  if (paths.size() == 2) {
    auto opened = gpu::Capture::open(paths.front(), heads);
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
  auto same = stages::check_floor_identity(a.identity(), second->identity(), own.identity(), name);
  if (!same) return std::unexpected(same.error());
  auto table = gpu::measure(a, *second, corpus, options);
  if (!table) return schema::wrap(table.error(), name);
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
  auto of_train = measure_floor(args.train, args.heads, stages::FloorSide::train, train, corpus, options);
  if (!of_train) return std::unexpected(of_train.error());
  floors.train = std::move(*of_train);
  auto of_inf = measure_floor(args.inf, args.heads, stages::FloorSide::inf, inf, corpus, options);
  if (!of_inf) return std::unexpected(of_inf.error());
  floors.inf = std::move(*of_inf);
  return floors;
}

}  // namespace driftgate::cli
