#include "daemon/drift/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/drift/contract_file.hpp"
#include "gpu/capture/capture_digest.hpp"
#include "stages/clauses/exact_test.hpp"
#include "stages/offline_numeric.hpp"

namespace driftgate::drift {

using schema::ErrorCode;
using schema::Result;

namespace {

/// How floors are measured.
struct FloorSetup {
  const gpu::Corpus* corpus = nullptr;
  bool digests = false;
  std::string device;  ///< of captures in its memory
  gpu::MeasureOptions options;
};

std::string name_of(stages::FloorSide side) {
  return fmt::format("the {} floor", stages::to_string(side));
}

bool same_capture(const gpu::Capture& a, const gpu::Capture& b) {
  return &a == &b || (!a.in_memory() && !b.in_memory() && a.name() == b.name());
}

Result<void> check_count(std::size_t given, stages::FloorSide side, const gpu::Capture& own) {
  if (given <= 2) return {};
  return schema::fail(
      ErrorCode::invalid_argument,
      fmt::format("--floor-{} was given {} captures: give one, which is compared with {}, or two, which are "
                  "compared with each other",
                  stages::to_string(side), given, own.name()));
}

Result<std::optional<gpu::MeasurementTable>> measure_floor(const std::vector<const gpu::Capture*>& captures,
                                                           stages::FloorSide side, const gpu::Capture& own,
                                                           const FloorSetup& setup,
                                                           const gpu::Progress& progress) {
  if (captures.empty()) return std::nullopt;
  const std::string name = name_of(side);
  TRY(check_count(captures.size(), side, own));
  const gpu::Capture& a = captures.size() == 2 ? *captures.front() : own;
  const gpu::Capture& b = *captures.back();
  if (same_capture(a, b)) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("{} compares {} with itself, which shows no noise: capture the same rows a "
                    "second time with another batch size",
                    name, a.name()));
  }
  TRY(stages::check_floor_identity(a.identity(), b.identity(), own.identity(), name));
  gpu::MeasureOptions options = setup.options;
  if (a.on_device() || b.on_device()) options.device = setup.device;
  auto table = gpu::measure(a, b, setup.corpus, options, progress);
  if (!table) return schema::wrap(table.error(), name);
  if (setup.digests) {
    if (auto ok = add_digests(*table, a, b); !ok) return schema::wrap(ok.error(), name);
  }
  return std::optional(std::move(*table));
}

/// Opens the captures of a floor, unless there are too many.
Result<std::vector<gpu::Capture>> open_floor(const std::vector<std::string>& paths, stages::FloorSide side,
                                             const gpu::Capture& own, const gpu::fused::HeadSource& heads) {
  TRY(check_count(paths.size(), side, own));
  std::vector<gpu::Capture> out;
  for (const std::string& path : paths) {
    auto opened = gpu::Capture::open(path, heads);
    if (!opened) return schema::wrap(opened.error(), name_of(side));
    out.push_back(std::move(*opened));
  }
  return out;
}

std::vector<const gpu::Capture*> pointers_to(const std::vector<gpu::Capture>& captures) {
  std::vector<const gpu::Capture*> out;
  for (const gpu::Capture& capture : captures) out.push_back(&capture);
  return out;
}

}  // namespace

gpu::MeasureOptions options_for(const schema::Contract* contract, const gpu::Corpus* corpus) {
  gpu::MeasureOptions options;
  if (contract == nullptr) return options;
  options.top_k = contract->top_k;
  if (contract->assumptions.policy) {
    options.ppo_clip = contract->assumptions.policy->ppo_clip;
    options.is_clip = contract->assumptions.policy->is_clip;
  }
  options.thresholds = stages::required_thresholds(*contract);
  options.slices = stages::wanted_slices(
      *contract, corpus != nullptr ? corpus->sequences : std::vector<gpu::SequenceInfo>{});
  return options;
}

gpu::MeasureOptions options_for(const schema::Contract* contract, const gpu::Corpus* corpus,
                                const MeasureArgs& args) {
  gpu::MeasureOptions options = options_for(contract, corpus);
  options.device = args.device;
  options.threads = args.threads;
  options.metrics = args.core() ? DRIFTGATE_METRICS_CORE : DRIFTGATE_METRICS_ALL;
  options.top_rows = args.top_rows;
  if (args.top_k) options.top_k = *args.top_k;
  return options;
}

std::vector<std::string> bits_for(const schema::Contract* contract) {
  return contract == nullptr ? std::vector<std::string>{} : stages::required_bits(*contract);
}

Result<MeasuredFloors> measure_floors(const Compared& compared, const FloorCaptures& floors,
                                      const FloorOptions& how) {
  FloorSetup setup{compared.corpus, how.digests, how.device, options_for(compared.contract, compared.corpus)};
  if (compared.contract != nullptr) setup.options.thresholds = stages::floor_thresholds(*compared.contract);
  setup.options.threads = how.threads;
  setup.options.top_rows = 0;
  const std::uint64_t of_first = floors.train.empty() ? 0 : compared.train.rows();
  const std::uint64_t all = of_first + (floors.inf.empty() ? 0 : compared.inf.rows());
  const auto behind = [&](std::uint64_t before) {
    gpu::Progress out;
    if (how.progress)
      out = [&how, before, all](std::uint64_t done, std::uint64_t) {
        how.progress(std::min(before + done, all), all);
      };
    return out;
  };
  auto of_train =
      TRY(measure_floor(floors.train, stages::FloorSide::train, compared.train, setup, behind(0)));
  auto of_inf = TRY(measure_floor(floors.inf, stages::FloorSide::inf, compared.inf, setup, behind(of_first)));
  return MeasuredFloors{std::move(of_train), std::move(of_inf)};
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
  const auto of_train = TRY(open_floor(args.floors.train, stages::FloorSide::train, train, heads));
  const auto of_inf = TRY(open_floor(args.floors.inf, stages::FloorSide::inf, inf, heads));
  auto floors = TRY(measure_floors(inputs.compared(), {pointers_to(of_train), pointers_to(of_inf)},
                                   {.digests = floor_digests}));
  inputs.floors = std::move(floors);
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
