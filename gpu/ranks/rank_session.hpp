#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/ranks/collective.hpp"
#include "gpu/ranks/ranked_drift.hpp"
#include "gpu/ranks/shard_choice.hpp"

namespace driftgate::gpu {

/// What a program asks of its ranks.
struct SessionRequest {
  std::string device = "cpu";                               ///< cpu, cuda, cuda:all, cuda:0,1
  std::uint32_t ranks = 0;                                  ///< 0 = one for each device, or the MPI job's
  std::string exchange = "auto";                            ///< auto, threads, mpi, nccl
  std::optional<Shard> shard;                               ///< absent: choose_shard
  std::chrono::milliseconds timeout = kDefaultRankTimeout;  ///< of each wait for another rank
  /// What to change where the number of ranks is not that of the MPI job: "leave --ranks out …".
  std::string other_number = "start as many processes as there are ranks";
};

/// The ranks of one program from its start to its end: this process alone, threads of it, or the processes of
/// an MPI job. In an MPI job every process makes the same calls in the same order; what rank 0 does between
/// two measurements may take any time, as it tells the others that it is alive.
class RankSession {
 public:
  /// Errors: invalid_argument, and those of open_mpi. An error of one process of an MPI job is returned by
  /// `measure`, so that the others are told of it.
  [[nodiscard]] static schema::Result<RankSession> start(const SessionRequest& request);
  RankSession(RankSession&&) noexcept;
  RankSession& operator=(RankSession&&) = delete;
  ~RankSession();

  /// Whether this process writes what is asked for.
  [[nodiscard]] bool root() const { return !job_ || job_->rank() == 0; }
  [[nodiscard]] std::uint32_t size() const;
  /// "cpu", "cpu, 4 ranks over mpi, vocab"
  [[nodiscard]] std::string describe() const;
  /// How several ranks shared the work of the last measurement; nothing for one.
  [[nodiscard]] const std::optional<ShardChoice>& choice() const { return choice_; }
  /// The table, at rank 0; nothing elsewhere. `exact` is what is compared bit by bit. Captures that hold a
  /// part of each distribution are refused unless `small_alone`: then rank 0 measures them.
  [[nodiscard]] schema::Result<std::optional<MeasurementTable>> measure(
      const Capture& train, const Capture& inf, const Corpus* corpus, MeasureOptions options,
      const std::vector<std::string>& exact, const Progress& progress, const RowSink& sink,
      bool small_alone = false);
  /// Whether this rank is one that reports the error: rank 0 speaks for all; so does whom it concerns, and
  /// everyone when that is rank 0.
  [[nodiscard]] bool reports(const schema::Error& error) const;
  /// Tells the other ranks of an error that ends the program.
  void fail(const schema::Error& error);
  /// Returns the exit code of rank 0 on every rank; after `fail` it ends the whole job. `lost` is what the
  /// others return where rank 0 cannot be heard any more, after `report` was given the reason. The last call.
  [[nodiscard]] int end(int exit_code, int lost, const std::function<void(const schema::Error&)>& report);

 private:
  class Ticker;
  RankSession();
  void set_apart();
  [[nodiscard]] schema::Result<void> resume();
  [[nodiscard]] schema::Result<int> told(std::int32_t state, int exit_code);
  [[nodiscard]] schema::Result<void> choose(const Capture& train, const Capture& inf, bool wants_rows);
  [[nodiscard]] schema::Result<std::optional<MeasurementTable>> measure_here(
      const Capture& train, const Capture& inf, const Corpus* corpus, const MeasureOptions& options,
      const std::vector<std::string>& exact, const Progress& progress, const RowSink& sink);

  std::string asked_;                 ///< devices in the words of the request
  std::vector<std::string> devices_;  ///< one for each rank of this process
  RankOptions options_;
  std::optional<Shard> shard_;  ///< that was asked for
  std::optional<ShardChoice> choice_;
  std::unique_ptr<Collective> job_;       ///< of an MPI job
  std::unique_ptr<Ticker> ticker_;        ///< of its rank 0, while it works alone
  bool apart_ = false;                    ///< rank 0 works alone, the others wait for it
  std::optional<schema::Error> trouble_;  ///< of a process that is part of an MPI job already
  std::uint32_t abandoned_ = 0;
  bool failed_ = false;
  std::optional<int> ended_;  ///< with which rank 0 has ended, where this rank would have gone on
};

}  // namespace driftgate::gpu
