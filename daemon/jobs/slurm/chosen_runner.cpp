#include "daemon/jobs/slurm/chosen_runner.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "daemon/jobs/detached_runner.hpp"
#include "daemon/jobs/job_folder.hpp"
#include "daemon/jobs/rooted_path.hpp"
#include "daemon/jobs/slurm/submissions.hpp"
#include "daemon/jobs/worker.hpp"

namespace driftgate::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFiles = 10'000;  ///< of a folder that are counted

/// Of a file, or of the files of a folder; 0 for all else.
std::uint64_t bytes_at(const fs::path& path) {
  std::error_code error;
  const auto kind = fs::status(path, error).type();
  if (kind == fs::file_type::regular) {
    const auto size = fs::file_size(path, error);
    return error ? 0 : size;
  }
  if (kind != fs::file_type::directory) return 0;
  std::uint64_t bytes = 0;
  int files = 0;
  for (fs::directory_iterator item(path, error), end; item != end && files < kMostFiles;
       item.increment(error)) {
    const auto size = item->is_regular_file(error) ? item->file_size(error) : 0;
    if (!error) bytes += size;
    ++files;
  }
  return bytes;
}

std::uint64_t bytes_of(const DriftPayload& payload) {
  std::vector<std::string> uris{payload.train, payload.inf, payload.corpus};
  for (const auto& floor : {payload.floor_train, payload.floor_inf}) {
    if (!floor) continue;
    uris.push_back(floor->first);
    uris.push_back(floor->second);
  }
  std::ranges::sort(uris);
  uris.erase(std::ranges::unique(uris).begin(), uris.end());
  std::uint64_t bytes = 0;
  for (const auto& uri : uris) {
    const auto path = uri.empty() ? std::string() : resolve_below(uri, payload.roots).value_or(std::string());
    if (!path.empty()) bytes += bytes_at(path);
  }
  return bytes;
}

std::uint64_t bytes_of(const CapturePayload& payload) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 1; i < payload.argv.size(); ++i) {
    if (payload.argv[i].starts_with('/')) bytes += bytes_at(payload.argv[i]);
  }
  return bytes;
}

class ChosenRunner final : public JobRunner {
 public:
  ChosenRunner(ChosenRunnerOptions options, std::unique_ptr<JobRunner> local,
               std::unique_ptr<JobRunner> other_local, std::unique_ptr<JobRunner> slurm)
      : options_(std::move(options)),
        local_(std::move(local)),
        other_local_(std::move(other_local)),
        slurm_(std::move(slurm)) {}

  void on_done(std::function<void(JobDone)> callback) override {
    for (auto* const runner : all()) {
      if (!callback) {
        runner->on_done({});
        continue;
      }
      runner->on_done([this, callback, runner](JobDone done) {
        done.folder = runner->folder(done.key);
        {
          const std::lock_guard guard(mutex_);
          chosen_.erase(done.key);
        }
        callback(std::move(done));
      });
    }
  }

  schema::Result<void> start(const JobSpec& spec) override {
    auto& runner = choose(spec);
    auto started = runner.start(spec);
    if (started) return started;
    const std::lock_guard guard(mutex_);
    chosen_.erase(spec.key);
    return started;
  }

  void cancel(const std::string& key) override {
    for (auto* const runner : all()) runner->cancel(key);
  }

  [[nodiscard]] std::optional<JobProgress> progress(const std::string& key) override {
    return runner_of(key).progress(key);
  }

  [[nodiscard]] std::optional<JobPlace> place(const std::string& key) override {
    for (auto* const runner : all()) {
      if (auto found = runner->place(key)) return found;
    }
    return std::nullopt;
  }

  void forget(const std::string& prefix) override {
    {
      const std::lock_guard guard(mutex_);
      std::erase_if(chosen_, [&](const auto& item) { return item.first.starts_with(prefix); });
    }
    for (auto* const runner : all()) runner->forget(prefix);
  }

  void drop_left(FateOf fate_of) override {
    for (auto* const runner : all()) runner->drop_left(fate_of);
  }

  [[nodiscard]] std::size_t running() const override {
    std::size_t count = 0;
    for (const auto* const runner : all()) count += runner->running();
    return count;
  }

  [[nodiscard]] std::string folder(const std::string& key) const override {
    return runner_of(key).folder(key);
  }

 private:
  /// Slurm's first: it must learn what is forgotten before its folder is gone.
  [[nodiscard]] std::vector<JobRunner*> all() const {
    std::vector<JobRunner*> runners;
    for (auto* const runner : {slurm_.get(), local_.get(), other_local_.get()}) {
      if (runner != nullptr) runners.push_back(runner);
    }
    return runners;
  }

  /// Of a job that was started; else the one whose folder new jobs have.
  [[nodiscard]] JobRunner& runner_of(const std::string& key) const {
    const std::lock_guard guard(mutex_);
    const auto found = chosen_.find(key);
    return found == chosen_.end() ? *local_ : *found->second;
  }

  JobRunner& choose(const JobSpec& spec) {
    {
      const std::lock_guard guard(mutex_);
      const auto found = chosen_.find(spec.key);
      if (found != chosen_.end()) return *found->second;
    }
    auto* runner = where_it_began(spec.key);
    if (runner == nullptr) {
      const bool slurm =
          slurm_ != nullptr && goes_to_slurm(options_, spec, [&spec] { return input_bytes(spec); });
      runner = slurm ? slurm_.get() : local_.get();
    }
    const std::lock_guard guard(mutex_);
    chosen_[spec.key] = runner;
    return *runner;
  }

  /// By what the job's folder holds; null for a job that has not begun.
  [[nodiscard]] JobRunner* where_it_began(const std::string& key) const {
    std::error_code ignored;
    if (slurm_ != nullptr && fs::exists(fs::path(slurm_->folder(key)) / kBatchFile, ignored))
      return slurm_.get();
    for (auto* const runner : {local_.get(), other_local_.get()}) {
      if (runner == nullptr) continue;
      const fs::path path(runner->folder(key));
      if (fs::exists(path / "pid", ignored) || fs::exists(path / "result.json", ignored)) return runner;
    }
    return nullptr;
  }

  const ChosenRunnerOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, JobRunner*> chosen_;  ///< of jobs that were started and have not ended
  std::unique_ptr<JobRunner> local_;          ///< new jobs on this machine
  std::unique_ptr<JobRunner> other_local_;    ///< such that began under another choice; null: no other folder
  std::unique_ptr<JobRunner> slurm_;          ///< null when nothing can be there
};

}  // namespace

bool goes_to_slurm(const ChosenRunnerOptions& options, const JobSpec& spec,
                   const std::function<std::uint64_t()>& bytes) {
  if (options.choice == RunnerChoice::local) return false;
  if (std::ranges::find(options.slurm_kinds, spec.kind) == options.slurm_kinds.end()) return false;
  return options.choice == RunnerChoice::slurm || spec.ranks > 1 || bytes() > options.slurm_from_bytes;
}

std::uint64_t input_bytes(const JobSpec& spec) {
  if (spec.kind == JobKind::drift) {
    const auto payload = drift_payload_from_json(spec.payload);
    return payload ? bytes_of(*payload) : 0;
  }
  if (spec.kind == JobKind::capture) {
    const auto payload = capture_payload_from_json(spec.payload);
    return payload ? bytes_of(*payload) : 0;
  }
  const auto payload = rescore_payload_from_json(spec.payload);
  return payload ? bytes_at(payload->spool) : 0;
}

schema::Result<void> check_open_folders(const ChosenRunnerOptions& options,
                                        const std::vector<std::string>& folders) {
  std::error_code ignored;
  const auto places = [&](const fs::path& folder) {
    return std::array{folder.lexically_normal(), fs::weakly_canonical(folder, ignored)};
  };
  const std::array known{places(options.local.jobs_dir), places(options.slurm.jobs_dir)};
  for (const auto& folder : folders) {
    const auto parent = fs::path(folder).parent_path();
    if (std::ranges::any_of(known,
                            [&](const auto& two) { return std::ranges::find(two, parent) != two.end(); }))
      continue;
    const JobFolder job(folder);
    if (!fs::exists(job.file(kBatchFile), ignored) || fs::exists(job.file("result.json"), ignored)) continue;
    const auto record = read_submissions(job);
    if (record && record->ended) continue;
    const auto number =
        record && !record->submissions.empty() ? " as job " + record->submissions.back().id : std::string();
    return schema::fail(
        schema::ErrorCode::conflict,
        fmt::format(
            "a job that was given to Slurm{} has not ended, and its folder {} is in no folder of jobs "
            "that the settings name; set slurm.jobs_dir to {} until it has ended, or cancel it at "
            "Slurm and remove its folder",
            number, folder, parent.string()));
  }
  return {};
}

schema::Result<std::unique_ptr<JobRunner>> open_chosen_runner(ChosenRunnerOptions options) {
  const bool always_local = options.choice == RunnerChoice::local;
  const auto data_folder = options.local.jobs_dir;
  std::unique_ptr<JobRunner> slurm;
  std::error_code ignored;
  options.slurm.look_at_start = !always_local;
  if (!always_local || fs::exists(options.slurm.jobs_dir, ignored)) {
    auto opened = open_slurm_runner(options.slurm);
    if (!opened && !always_local) return opened;
    if (opened) slurm = std::move(*opened);
  }
  auto home = options.local;
  if (!always_local) home.jobs_dir = options.slurm.jobs_dir;
  auto local = TRY(open_local_runner(home));
  std::unique_ptr<JobRunner> other_local;
  auto other = options.local;
  other.jobs_dir = always_local ? options.slurm.jobs_dir : data_folder;
  if (fs::exists(other.jobs_dir, ignored) && !fs::equivalent(other.jobs_dir, home.jobs_dir, ignored))
    other_local = TRY(open_local_runner(other));
  return detached(std::make_unique<ChosenRunner>(std::move(options), std::move(local), std::move(other_local),
                                                 std::move(slurm)));
}

}  // namespace driftgate::jobs
