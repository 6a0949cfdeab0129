#include "daemon/drift/inputs.hpp"

#include <fmt/format.h>

#include "daemon/drift/contract_file.hpp"
#include "gpu/capture/capture_digest.hpp"
#include "stages/offline_numeric.hpp"

namespace driftgate::drift {

using schema::ErrorCode;
using schema::Result;

namespace {

/// How floors are measured.
struct FloorSetup {
  const gpu::fused::HeadSource& heads;
  bool digests = false;
  gpu::MeasureOptions options;
};

Result<std::optional<gpu::MeasurementTable>> measure_floor(const std::vector<std::string>& paths,
                                                           stages::FloorSide side, const gpu::Capture& own,
                                                           const gpu::Corpus* corpus,
                                                           const FloorSetup& setup) {
  if (paths.empty()) return std::nullopt;
  const std::string name = fmt::format("the {} floor", stages::to_string(side));
  if (paths.size() > 2) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "--floor-{} was given {} captures: give one, which is compared with {}, or two, which are "
            "compared with each other",
            stages::to_string(side), paths.size(), own.name()));
  }
  const auto second = gpu::Capture::open(paths.back(), setup.heads);
  if (!second) return schema::wrap(second.error(), name);
  std::optional<gpu::Capture> first;
  if (paths.size() == 2) {
    auto opened = gpu::Capture::open(paths.front(), setup.heads);
    if (!opened) return schema::wrap(opened.error(), name);
    first = std::move(*opened);
  }
  const gpu::Capture& a = first ? *first : own;
  if (a.name() == second->name()) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("{} compares {} with itself, which shows no noise: capture the same rows a "
                    "second time with another batch size",
                    name, a.name()));
  }
  TRY(stages::check_floor_identity(a.identity(), second->identity(), own.identity(), name));
  auto table = gpu::measure(a, *second, corpus, setup.options);
  if (!table) return schema::wrap(table.error(), name);
  if (setup.digests) {
    if (auto ok = add_digests(*table, a, *second); !ok) return schema::wrap(ok.error(), name);
  }
  return std::optional(std::move(*table));
}

}  // namespace

gpu::MeasureOptions Inputs::options() const {
  gpu::MeasureOptions options;
  if (!contract) return options;
  options.top_k = contract->top_k;
  if (contract->assumptions.policy) {
    options.ppo_clip = contract->assumptions.policy->ppo_clip;
    options.is_clip = contract->assumptions.policy->is_clip;
  }
  options.thresholds = stages::required_thresholds(*contract);
  options.slices =
      stages::wanted_slices(*contract, corpus ? corpus->sequences : std::vector<gpu::SequenceInfo>{});
  return options;
}

Result<Inputs> open_inputs(const InputArgs& args, const gpu::fused::HeadSource& heads, bool floor_digests) {
  std::optional<schema::Contract> contract;
  if (!args.contract.empty()) {
    auto read = TRY(read_contract_file(args.contract));
    contract = std::move(read);
  }
  std::optional<gpu::Corpus> corpus;
  if (!args.corpus.empty()) {
    auto read = TRY(gpu::read_corpus(args.corpus));
    corpus = std::move(read);
  }
  auto train = TRY(gpu::Capture::open(args.train, heads));
  auto inf = TRY(gpu::Capture::open(args.inf, heads));
  const bool hidden = train.mode() == gpu::CaptureMode::hidden || inf.mode() == gpu::CaptureMode::hidden;
  if (!hidden && !(heads.lm_head.empty() && heads.checkpoint.empty())) {
    return schema::fail(
        ErrorCode::invalid_argument,
        "--lm-head and --checkpoint name the head of hidden states, but these captures contain "
        "no hidden states; leave them out");
  }
  Inputs inputs{std::move(train), std::move(inf), std::move(corpus), std::move(contract), {}};
  FloorSetup setup{heads, floor_digests, inputs.options()};
  if (inputs.contract) setup.options.thresholds = stages::floor_thresholds(*inputs.contract);
  setup.options.top_rows = 0;
  auto of_train =
      TRY(measure_floor(args.floors.train, stages::FloorSide::train, inputs.train, inputs.slices(), setup));
  auto of_inf =
      TRY(measure_floor(args.floors.inf, stages::FloorSide::inf, inputs.inf, inputs.slices(), setup));
  inputs.floors = {std::move(of_train), std::move(of_inf)};
  return inputs;
}

std::vector<std::string> paths_of(const InputArgs& args) {
  std::vector<std::string> paths{args.train, args.inf, args.corpus, args.contract};
  paths.insert(paths.end(), args.floors.train.begin(), args.floors.train.end());
  paths.insert(paths.end(), args.floors.inf.begin(), args.floors.inf.end());
  return paths;
}

Result<void> add_digests(gpu::MeasurementTable& table, const gpu::Capture& train, const gpu::Capture& inf) {
  for (const auto& [capture, identity] : {std::pair(&train, &table.train), std::pair(&inf, &table.inf)}) {
    auto digest = TRY(gpu::capture_digest(*capture));
    identity->file_digest = std::move(digest);
  }
  return {};
}

}  // namespace driftgate::drift
