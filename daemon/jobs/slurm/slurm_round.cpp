#include "daemon/jobs/slurm/slurm_round.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "daemon/base/clock.hpp"
#include "daemon/jobs/kept_chunks.hpp"
#include "schema/utf8.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;
using Kind = JobStep::Kind;

constexpr std::size_t kTailBytes = 1'500;          ///< of a job's output, in an error
constexpr std::uint64_t kFullBelowBytes = 65'536;  ///< room in a folder that counts as none
constexpr std::uint32_t kMostRestarts = 1'000;     ///< that one look counts
constexpr std::string_view kCommentPrefix = "driftgate/";

std::uint64_t number_of(const std::string& id) {
  std::uint64_t number = 0;
  (void)std::from_chars(id.data(), id.data() + id.size(), number);
  return number;
}

bool is_full(const JobFolder& folder) {
  struct statvfs room {};
  if (::statvfs(folder.path().c_str(), &room) != 0) return false;
  return room.f_bavail * room.f_frsize < kFullBelowBytes;
}

/// The end of a file that a job wrote, for people; "" when there is none.
std::string tail_of(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return {};
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  if (size <= 0) return {};
  const auto from = std::max<off_t>(size - static_cast<off_t>(kTailBytes), 0);
  std::string text(static_cast<std::size_t>(size - from), '\0');
  const auto got = ::pread(fd.get(), text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return schema::utf8_text(text, kTailBytes);
}

/// Lines of the worker and of Slurm's programs. A site's script may print anything, keys too, and what an
/// error quotes is shown to all and never deleted.
std::string own_lines(std::string_view text) {
  constexpr std::array<std::string_view, 3> kFrom{"driftgate worker: ", "srun: ", "slurmstepd: "};
  std::string kept;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (std::ranges::none_of(kFrom, [&](std::string_view from) { return line.starts_with(from); })) continue;
    if (!kept.empty()) kept += '\n';
    kept += line;
  }
  return kept;
}

std::string output_of(const JobFolder& folder, const std::string& id) {
  return own_lines(tail_of(folder.file(fmt::format("slurm-{}.out", id))));
}

std::string latest_id(const SubmissionRecord& record) {
  const auto* const one = newest(record);
  return one != nullptr ? one->id : record.submissions.empty() ? std::string() : record.submissions.back().id;
}

}  // namespace

SlurmJobs::SlurmJobs(const SlurmRunnerOptions& options, int stop_fd)
    : options_(options), commands_(options.access, stop_fd), look_for_strays_(options.look_at_start) {}

void SlurmJobs::log(std::string_view level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

bool SlurmJobs::is_known(const std::string& key) const {
  return std::ranges::any_of(jobs_, [&](const Job& job) { return job.spec.key == key; });
}

void SlurmJobs::add(const JobSpec& spec) {
  if (is_known(spec.key)) return;
  auto& job = jobs_.emplace_back(Job{spec, JobFolder(options_.jobs_dir / job_folder_name(spec.key))});
  auto record = read_submissions(job.folder);
  if (!record && record.error().code == ErrorCode::io) {
    job.ended = failed(record.error());
  } else if (!record) {  // what it said is at Slurm too
    log("warn", fmt::format("{}: {}", job.folder.file(kSubmissionsFile), record.error().describe()));
  } else {
    job.record = std::move(*record);
    job.saved = to_json(job.record);
  }
}

void SlurmJobs::cancel(const std::string& key) {
  for (auto& job : jobs_) {
    if (job.spec.key != key || job.ended || job.record.cancelled) continue;
    job.record.cancelled = true;
    if (!job.record.submissions.empty()) save(job);
  }
}

void SlurmJobs::forget(const std::string& prefix) {
  for (const auto& job : jobs_) {
    if (job.spec.key.starts_with(prefix)) forgotten_.insert(job.folder.path().string());
  }
  std::erase_if(jobs_, [&](const Job& job) { return job.spec.key.starts_with(prefix); });
  const auto start = job_folder_name(prefix);
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, ignored)) {
    const bool named = item.path().filename().string().starts_with(start);
    if (!named || !std::filesystem::exists(item.path() / kBatchFile, ignored)) continue;
    forgotten_.insert(item.path().string());
    std::filesystem::remove_all(item.path(), ignored);
  }
  // A submission that was never recorded is found by its folder, which is gone now.
  look_for_strays_ = true;
}

void SlurmJobs::drop_left(const FateOf& fate_of) {
  std::vector<std::filesystem::path> left;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, ignored))
    if (std::filesystem::exists(item.path() / kBatchFile, ignored)) left.push_back(item.path());
  for (const auto& path : left) {
    const JobFolder folder(path);
    const auto key = key_in(folder);
    const auto fate = key.empty() || is_known(key) ? JobFate::keep : fate_of(key);
    if (fate == JobFate::forget) forget(key);
    if (fate == JobFate::cancel) note_cancelled(folder);
  }
}

/// The next look finds it at Slurm as one that nobody waits for.
void SlurmJobs::note_cancelled(const JobFolder& folder) {
  std::error_code ignored;
  auto record = read_submissions(folder).value_or(SubmissionRecord{});
  if (record.ended || std::filesystem::exists(folder.file("result.json"), ignored)) return;
  record.cancelled = true;
  if (const auto noted = folder.put(kSubmissionsFile, to_json(record)); !noted)
    return log("warn", fmt::format("cannot note that a job is cancelled: {}", noted.error().describe()));
  look_for_strays_ = true;
}

/// Takes a result that lies in the folder; true when the job has ended with it.
bool SlurmJobs::take_result(Job& job, bool slurm_has_ended) const {
  if (job.ended) return true;
  const auto text = job.folder.get("result.json");
  if (text) {
    auto result = job_result_from_json(*text);
    job.ended = result ? std::move(*result) : failed(result.error());
  } else if (text.error().code != ErrorCode::not_found && slurm_has_ended) {
    job.ended = failed(text.error());  // while the job runs, reading may fail and work again
  }
  return job.ended.has_value();
}

void SlurmJobs::look_for_results() {
  for (auto& job : jobs_) {
    if (take_result(job, false)) continue;
    if (job.record.ended) job.ended = failed(*job.record.ended);
  }
}

std::vector<JobDone> SlurmJobs::look() {
  look_for_results();
  const bool all_ended = std::ranges::all_of(jobs_, [](const Job& job) { return job.ended.has_value(); });
  if (!all_ended || is_owed()) look_at_queue();
  std::vector<JobDone> done;
  for (auto& job : jobs_) {
    if (!job.ended) continue;
    done.push_back({job.spec.key, *job.ended, place(job)});
    if (job.known && is_alive(phase_of(job.known->state)))
      finished_.try_emplace(job.folder.path().string(), Clock::now());
  }
  std::erase_if(jobs_, [](const Job& job) { return job.ended.has_value(); });
  return done;
}

void SlurmJobs::look_at_queue() {
  const auto queue = commands_.queue();
  if (!queue) return controller_away(queue.error());
  if (away_since_) log("info", "Slurm's controller answers again");
  away_since_.reset();
  away_reason_.clear();
  full_reason_.clear();
  for (auto& job : jobs_) {
    if (job.ended) continue;
    take_over(job, *queue);
    choose_submission(job, *queue);
    act(job);
  }
  if (look_for_strays_) cancel_strays(*queue);
  cancel_unwanted(*queue);
  cancel_at_slurm(*queue);
}

/// Only what the queue shows under number and folder: a controller that lost its newest state in a crash
/// gives the same numbers to other jobs.
void SlurmJobs::cancel_at_slurm(const std::vector<QueuedJob>& queue) {
  std::vector<std::string> ids;
  for (const auto& seen : queue) {
    if (cancels_.contains({seen.id, seen.folder})) ids.push_back(seen.id);
  }
  const auto gone = commands_.cancel(ids);
  if (!gone)
    return log("warn",
               fmt::format("cannot cancel {} jobs at Slurm: {}", ids.size(), gone.error().describe()));
  cancels_.clear();
  forgotten_.clear();
}

/// Jobs of folders that were deleted, and jobs that stay though their result is there.
void SlurmJobs::cancel_unwanted(const std::vector<QueuedJob>& queue) {
  std::map<std::string, Clock::time_point> still;
  for (const auto& seen : queue) {
    if (!is_alive(phase_of(seen.state))) continue;
    if (forgotten_.contains(seen.folder)) cancels_.insert({seen.id, seen.folder});
    const auto finished = finished_.find(seen.folder);
    if (finished == finished_.end()) continue;
    still.insert(*finished);
    if (Clock::now() - finished->second >= options_.linger) cancels_.insert({seen.id, seen.folder});
  }
  finished_ = std::move(still);
}

/// Jobs that run go on without the controller, and their results come by their folders.
void SlurmJobs::controller_away(const schema::Error& error) {
  const auto now = Clock::now();
  if (!away_since_) {
    away_since_ = now;
    log("warn", fmt::format("Slurm's controller cannot be reached: {}", error.describe()));
  }
  away_reason_ = fmt::format("Slurm's controller cannot be reached: {}", error.describe());
  for (auto& job : jobs_) {
    if (job.ended || !job.record.cancelled) continue;
    look_for_strays_ = true;  // Slurm is told once it can be
    end(job, {ErrorCode::conflict, "the job was cancelled", {}, nullptr});
  }
  if (now - *away_since_ < options_.away) return;
  for (auto& job : jobs_) {
    if (job.ended || (!job.record.submissions.empty() && !job.folder.lock_is_free())) continue;
    look_for_strays_ = true;  // what still waits there is not wanted any more
    end(job, {ErrorCode::unavailable,
              fmt::format("Slurm's controller could not be reached for {} s (slurm.away_s): {}",
                          std::chrono::duration_cast<std::chrono::seconds>(options_.away).count(),
                          error.describe()),
              {},
              nullptr});
  }
}

/// Notes what the queue says of the job's submissions, and finds those that were never recorded.
void SlurmJobs::take_over(Job& job, const std::vector<QueuedJob>& queue) {
  const auto comment = job_comment(job.spec.key);
  std::vector<const QueuedJob*> own;
  const auto is_recorded = [&](const QueuedJob& seen) {
    return std::ranges::find(job.record.submissions, seen.id, &Submission::id) !=
           job.record.submissions.end();
  };
  for (const auto& seen : queue) {  // a site may change the comments of jobs
    if (seen.folder == job.folder.path().string() && (seen.comment == comment || is_recorded(seen)))
      own.push_back(&seen);
  }
  std::ranges::sort(own, {}, [](const QueuedJob* seen) { return number_of(seen->id); });
  for (const auto* const seen : own) {
    if (!is_recorded(*seen)) {
      log("info", fmt::format("found job {} at Slurm: {}", seen->id, job.spec.key));
      const bool doubled = std::ranges::any_of(own, [&](const QueuedJob* other) {
        return other != seen && is_alive(phase_of(other->state)) && is_recorded(*other);
      });
      begin(job, seen->id, doubled);
    }
    note_state(job, *seen);
  }
}

void SlurmJobs::note_state(Job& job, const QueuedJob& seen) {
  const auto own = std::ranges::find(job.record.submissions, seen.id, &Submission::id);
  own->state = seen.state;
  own->reason = seen.reason;
  own->nodes = seen.nodes;
  own->exit_code = seen.exit_code;
  own->signal = seen.signal;
  own->used_s = seen.used_s;
  own->limit_s = seen.limit_s;
  if (seen.restarts <= own->restarts) return;
  const auto measured = measured_bytes(job.folder);
  const auto more = std::min(seen.restarts - own->restarts, kMostRestarts);
  job.record.stalled = measured > job.record.measured_bytes ? more - 1 : job.record.stalled + more;
  job.record.measured_bytes = measured;
  own->restarts = seen.restarts;
  log("info", fmt::format("Slurm starts job {} again: {}", seen.id, job.spec.key));
}

/// Of several that live, which only a lost answer of sbatch can leave, the one that got furthest counts. The
/// others go, and are never judged.
void SlurmJobs::choose_submission(Job& job, const std::vector<QueuedJob>& queue) {
  job.known.reset();
  std::vector<std::pair<const QueuedJob*, Submission*>> alive;
  for (auto& one : job.record.submissions) {
    const auto seen = std::ranges::find_if(queue, [&](const QueuedJob& other) {
      return other.id == one.id && other.folder == job.folder.path().string();
    });
    if (seen == queue.end()) continue;
    const bool lives = is_alive(phase_of(seen->state));
    if (one.superseded && lives) cancels_.insert({one.id, seen->folder});
    if (one.superseded) continue;
    if (lives) alive.emplace_back(&*seen, &one);
    if (&one == newest(job.record)) job.known = *seen;
  }
  std::ranges::sort(alive, {}, [](const auto& item) {
    return std::pair(phase_of(item.first->state) != SlurmPhase::running, number_of(item.first->id));
  });
  if (!alive.empty()) {
    job.known = *alive.front().first;
    for (std::size_t i = 1; i < alive.size(); ++i)
      cancels_.insert({alive[i].first->id, alive[i].first->folder});
    for (auto& one : job.record.submissions) {
      const bool later = &one > alive.front().second;
      const bool doubled = std::ranges::any_of(alive, [&](const auto& item) { return item.second == &one; });
      if (&one != alive.front().second && (later || doubled)) one.superseded = true;
    }
  }
  if (!alive.empty() || job.record.submissions.empty()) {
    job.ended_since.reset();
    return;
  }
  if (!job.ended_since) job.ended_since = Clock::now();
  judge_ended(job);
}

/// The controller forgets ended jobs after minutes. Accounting has how this one ended, or it was noted; of a
/// cancelled one accounting has by whom.
void SlurmJobs::judge_ended(Job& job) {
  const auto last = std::ranges::find_if(job.record.submissions,
                                         [&](const Submission& one) { return &one == newest(job.record); });
  if (last == job.record.submissions.end()) return;
  if (!job.known || job.known->state == "CANCELLED") {
    auto stored = commands_.accounted(last->id);
    const bool other = stored && !stored->folder.empty() && stored->folder != job.folder.path().string();
    if (stored && !other && !is_alive(phase_of(stored->state))) {
      last->state = stored->state;
      job.known = std::move(stored);
    }
  }
  if (job.known || last->state.empty() || is_alive(phase_of(last->state))) return;
  job.known = QueuedJob{.id = last->id,
                        .state = last->state,
                        .reason = last->reason,
                        .nodes = last->nodes,
                        .exit_code = last->exit_code,
                        .signal = last->signal,
                        .used_s = last->used_s,
                        .limit_s = last->limit_s};
}

JobFacts SlurmJobs::facts_of(Job& job) const {
  JobFacts facts;
  facts.submitted = newest(job.record) != nullptr;
  facts.known = job.known;
  facts.cancelled = job.record.cancelled;
  facts.stalled = job.record.stalled;
  facts.resubmissions = options_.resubmissions;
  facts.folder = job.folder.path().string();
  if (!facts.submitted) return facts;
  facts.id = job.known ? job.known->id : latest_id(job.record);
  if (!job.known || !is_unfit(*job.known))
    job.unfit_since.reset();
  else if (!job.unfit_since)
    job.unfit_since = Clock::now();
  facts.unfit = job.unfit_since && Clock::now() - *job.unfit_since >= options_.away;
  if (!needs_folder(facts)) return facts;
  facts.lock_held = job.ended_since && !job.folder.lock_is_free();
  facts.settled = job.ended_since && Clock::now() - *job.ended_since >= options_.settle;
  facts.further = measured_bytes(job.folder) > job.record.measured_bytes;
  facts.folder_full = is_full(job.folder);
  facts.output = output_of(job.folder, facts.id);
  facts.lost_rank = tail_of(job.folder.file(kLostRankFile));
  return facts;
}

void SlurmJobs::act(Job& job) {
  auto step = next_step(facts_of(job));
  // A result may have come since the look at the folders.
  if (step.kind != Kind::wait && take_result(job, step.kind == Kind::fail)) return;
  switch (step.kind) {
    case Kind::wait:
      break;
    case Kind::submit:
      submit(job);
      break;
    case Kind::replace:
      cancels_.insert({job.known->id, job.folder.path().string()});
      for (auto& one : job.record.submissions) one.superseded = one.superseded || one.id == job.known->id;
      submit(job);
      break;
    case Kind::cancel:
      cancels_.insert({job.known->id, job.folder.path().string()});
      break;
    case Kind::cancel_and_fail:
      cancels_.insert({job.known->id, job.folder.path().string()});
      end(job, std::move(step.error));
      break;
    case Kind::fail:
      // A submission without an answer may still appear at Slurm.
      if (job.unanswered) look_for_strays_ = true;
      end(job, std::move(step.error));
      break;
  }
  if (!job.ended) save(job);
}

std::size_t SlurmJobs::at_slurm() const {
  return static_cast<std::size_t>(std::ranges::count_if(jobs_, [](const Job& job) {
    return !job.ended && !job.record.submissions.empty() && !job.ended_since;
  }));
}

schema::Result<void> SlurmJobs::prepare_folder(const Job& job) const {
  std::error_code error;
  std::filesystem::create_directories(job.folder.path(), error);
  if (error)
    return schema::fail(error == std::errc::no_space_on_device ? ErrorCode::storage_full : ErrorCode::io,
                        fmt::format("cannot make {}: {}", job.folder.path().string(), error.message()));
  std::filesystem::permissions(job.folder.path(), std::filesystem::perms::owner_all, error);
  if (job.record.submissions.empty()) take_over_chunks(job.folder, job.spec.key);
  TRY(job.folder.put("spec.json", to_json(job.spec)));
  const std::string_view text =
      options_.script_template.empty() ? shipped_template() : std::string_view(options_.script_template);
  return job.folder.put(kBatchFile, batch_script(text, job.spec, job.folder.path().string(), options_.worker,
                                                 options_.resources));
}

void SlurmJobs::submit(Job& job) {
  if (job.refusal && Clock::now() < job.refusal->next_try) return;
  job.wait_reason = full_reason_;
  if (!full_reason_.empty()) return;
  if (at_slurm() >= options_.queue_limit) {
    job.wait_reason =
        fmt::format("{} jobs are at Slurm, as many as slurm.queue_limit allows", options_.queue_limit);
    return;
  }
  if (auto made = prepare_folder(job); !made) return end(job, std::move(made.error()));
  const auto id = commands_.submit(sbatch_words(job.spec, job.folder.path().string(), options_.resources));
  if (id) {
    if (!job.record.submissions.empty())
      log("warn",
          fmt::format("submitted again as job {} after {} ({}): {}", *id, job.record.submissions.back().id,
                      job.record.submissions.back().state, job.spec.key));
    begin(job, *id, false);
    return;
  }
  const auto& error = id.error();
  if (error.code == ErrorCode::invalid_argument) return end(job, error);
  if (error.code == ErrorCode::conflict) return refused(job, error);
  // Too many jobs there, or nobody can say whether it was taken: the next look at the queue tells.
  full_reason_ = error.describe();
  job.wait_reason = full_reason_;
  job.unanswered = job.unanswered || error.code == ErrorCode::unavailable;
}

/// A partition that is drained, a disk of the controller that is full: asked again, ever less often.
void SlurmJobs::refused(Job& job, const schema::Error& error) {
  constexpr std::chrono::milliseconds kLongestPause{60'000};
  const auto now = Clock::now();
  if (!job.refusal) {
    job.refusal = Refusal{now, now, options_.poll};
    log("warn", fmt::format("{} ({})", error.describe(), job.spec.key));
  }
  job.wait_reason = error.describe();
  if (now - job.refusal->since >= options_.away)
    return end(job, {ErrorCode::unavailable,
                     fmt::format("{}; asked for {} s (slurm.away_s)", error.describe(),
                                 std::chrono::duration_cast<std::chrono::seconds>(options_.away).count()),
                     {},
                     nullptr});
  job.refusal->next_try = now + job.refusal->pause;
  job.refusal->pause = std::min(2 * job.refusal->pause, kLongestPause);
}

/// A submission under a number that is new to the record. `doubled`: while another one lives, so that it says
/// nothing of how that one fared.
void SlurmJobs::begin(Job& job, const std::string& id, bool doubled) const {
  const auto measured = measured_bytes(job.folder);
  if (!job.record.submissions.empty() && !doubled)
    job.record.stalled = measured > job.record.measured_bytes ? 0 : job.record.stalled + 1;
  job.record.measured_bytes = measured;
  job.record.submissions.push_back({.id = id, .submitted_us = base::wall_clock_us()});
  job.known.reset();
  job.ended_since.reset();
  job.wait_reason.clear();
  job.refusal.reset();
  job.unanswered = false;
}

bool SlurmJobs::is_stray(const QueuedJob& seen) const {
  const std::filesystem::path path(seen.folder);
  if (!seen.comment.starts_with(kCommentPrefix) || path.parent_path() != options_.jobs_dir) return false;
  const auto key = seen.comment.substr(kCommentPrefix.size());
  if (path.filename() != job_folder_name(key) || is_known(key)) return false;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    // Not where all folders are missing, since their file system is.
    const bool mounted = options_.folders_are_known && !error &&
                         std::filesystem::exists(options_.jobs_dir / kJobsMarker, error);
    return mounted && !error;
  }
  const auto record = read_submissions(JobFolder(path));
  return record && (record->ended || record->cancelled);
}

/// Jobs that were given up by a daemon which could not, or not yet, tell Slurm so.
void SlurmJobs::cancel_strays(const std::vector<QueuedJob>& queue) {
  look_for_strays_ = false;
  for (const auto& seen : queue) {
    if (!is_alive(phase_of(seen.state)) || !is_stray(seen)) continue;
    log("info", fmt::format("cancelling job {} at Slurm, which nobody waits for: {}", seen.id, seen.comment));
    cancels_.insert({seen.id, seen.folder});
  }
}

/// The error is stored, so that a daemon that starts before the pipeline has taken it tells the same.
void SlurmJobs::end(Job& job, schema::Error error) {
  job.record.ended = error;
  job.ended = failed(std::move(error));
  std::error_code ignored;
  if (std::filesystem::exists(job.folder.path(), ignored)) save(job);
}

void SlurmJobs::save(Job& job) const {
  if (job.record.submissions.empty() && !job.record.ended) return;
  auto text = to_json(job.record);
  if (text == job.saved) return;
  const auto written = job.folder.put(kSubmissionsFile, text);
  if (written) {
    job.saved = std::move(text);
  } else {
    log("warn", fmt::format("cannot note the submissions of a job: {}", written.error().describe()));
  }
}

JobPlace SlurmJobs::place(const Job& job) const {
  auto place = place_of(job.record);
  if (job.ended) {
    place.state = "ended";
    return place;
  }
  if (job.known) {
    place.remote = job.known->id;
    const auto phase = phase_of(job.known->state);
    place.state = phase == SlurmPhase::running ? "running" : is_alive(phase) ? "queued" : "ended";
    if (!is_alive(phase)) place.reason = job.known->state;
  } else if (!job.record.submissions.empty()) {
    place.state = "queued";
  }
  if (!job.wait_reason.empty()) place.state = "waiting";
  if (!job.wait_reason.empty()) place.reason = job.wait_reason;
  if (!away_reason_.empty()) place.reason = away_reason_;
  return place;
}

std::vector<std::pair<std::string, JobPlace>> SlurmJobs::places() const {
  std::vector<std::pair<std::string, JobPlace>> all;
  for (const auto& job : jobs_) all.emplace_back(job.spec.key, place(job));
  return all;
}

}  // namespace driftgate::jobs
