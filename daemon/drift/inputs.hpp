#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::drift {

/// Captures of noise floors on the command line: runs of one kernel with different batch sizes. One is
/// compared with the drift's own capture of that kernel, two are compared with each other.
struct FloorArgs {
  std::vector<std::string> train, inf;
};

/// What is read, by its names on the command line.
struct InputArgs {
  std::string train, inf;  ///< captures: a file or a folder each
  std::string corpus;      ///< JSON Lines; empty: none
  std::string contract;    ///< YAML or JSON; empty: none
  FloorArgs floors;        ///< noise floors to show the drift beside
};

/// The floors' tables; nothing where no captures were given.
struct MeasuredFloors {
  std::optional<gpu::MeasurementTable> train, inf;
  /// Points into this value.
  [[nodiscard]] stages::Floors view() const {
    return {{train ? &*train : nullptr, {}}, {inf ? &*inf : nullptr, {}}};
  }
};

/// How to measure, by the options of `driftgate drift`.
struct MeasureArgs {
  std::string device = "cpu";          ///< cpu, cuda, cuda:N; further ones with several ranks
  std::uint32_t threads = 0;           ///< 0 = one for each processor
  std::string metrics = "all";         ///< all, or core: what one reading of a row yields
  std::optional<std::uint32_t> top_k;  ///< of topk_overlap; absent = the contract's, or 10
  std::uint32_t top_rows = 20;         ///< worst rows to report
  [[nodiscard]] bool core() const { return metrics == "core"; }
};

/// What a table must contain so that the clauses of the contract, if any, can be decided on it. Both may be
/// null.
[[nodiscard]] gpu::MeasureOptions options_for(const schema::Contract* contract, const gpu::Corpus* corpus);
/// The same, and as `args` demand.
[[nodiscard]] gpu::MeasureOptions options_for(const schema::Contract* contract, const gpu::Corpus* corpus,
                                              const MeasureArgs& args);
/// The names of what the contract compares bit by bit (gpu::BitComparison).
[[nodiscard]] std::vector<std::string> bits_for(const schema::Contract* contract);

/// What is compared, by whoever owns it.
struct Compared {
  const gpu::Capture& train;
  const gpu::Capture& inf;
  const gpu::Corpus* corpus = nullptr;
  const schema::Contract* contract = nullptr;
};

/// Captures of noise floors: none, one that is compared with the drift's own capture of that kernel, or two
/// that are compared with each other.
struct FloorCaptures {
  std::vector<const gpu::Capture*> train, inf;
};

/// How floors are measured.
struct FloorOptions {
  std::uint32_t threads = 0;    ///< 0 = one for each processor
  bool digests = false;         ///< the tables name the digests of their captures
  std::string device = "cpu";   ///< for captures in its memory; others are measured on the CPU
  gpu::Progress progress = {};  ///< of the rows of all floors
};

/// Measures the floors with everything that the clauses of the contract need. Errors: `invalid_argument` for
/// more than two captures of a floor or twice the same one; `not_comparable` for another kernel, checkpoint
/// or corpus; and those of gpu::measure.
[[nodiscard]] schema::Result<MeasuredFloors> measure_floors(const Compared& compared,
                                                            const FloorCaptures& floors,
                                                            const FloorOptions& how = {});

struct Inputs {
  gpu::Capture train, inf;
  std::optional<gpu::Corpus> corpus;
  std::optional<schema::Contract> contract;
  MeasuredFloors floors;

  [[nodiscard]] const gpu::Corpus* slices() const { return corpus ? &*corpus : nullptr; }
  [[nodiscard]] const schema::Contract* terms() const { return contract ? &*contract : nullptr; }
  [[nodiscard]] Compared compared() const { return {train, inf, slices(), terms()}; }
  [[nodiscard]] gpu::MeasureOptions options() const { return options_for(terms(), slices()); }
};

/// Opens what is named and measures the floors with everything that the clauses of the contract need. `heads`
/// are those of hidden states; with `floor_digests` the floors' tables name the digests of their captures.
/// Errors: `invalid_argument` for more than two captures of a floor, twice the same one, or heads without
/// hidden states; `not_comparable` for another kernel, checkpoint or corpus; and those of reading and
/// measuring captures.
[[nodiscard]] schema::Result<Inputs> open_inputs(const InputArgs& args,
                                                 const gpu::fused::HeadSource& heads = {},
                                                 bool floor_digests = false);

/// Every file and folder that `args` names; some may be empty.
[[nodiscard]] std::vector<std::string> paths_of(const InputArgs& args);

/// Computes the digests of both captures and puts them into the table.
[[nodiscard]] schema::Result<void> add_digests(gpu::MeasurementTable& table, const gpu::Capture& train,
                                               const gpu::Capture& inf);

}  // namespace driftgate::drift
