#include "daemon/route/relay/mirror.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "daemon/route/control/telemetry_json.hpp"
#include "daemon/route/relay/answer_judge.hpp"

namespace driftgate::route {
namespace {

/// Ends a mirror's stay among the open ones, however it ends.
struct Closing {
  OpenMirrors& mirrors;
  const std::string& stage_key;
  ~Closing() { mirrors.remove(stage_key); }
};

}  // namespace

void MirrorQueue::offer(MirrorJob job) {
  start_workers();  // beside copies that are overdue by now
  const bool full = overdue_at_.size() >= core_.options.mirror_concurrency;
  const bool room = waiting_.size() < core_.options.mirror_queue || (!full && waiting_.empty());
  const bool fits = job.pair.request_body.size() <= kMaxMirroredBodyBytes && job.incumbent_kept;
  if (!room || !fits || !core_.budget.take(job.stage_key, job.tokens, job.token_budget)) {
    core_.ledger.count_mirror(job.model, job.stage_key, MirrorEnd::skipped);
    return;
  }
  if (!job.engine) return keep(job);
  core_.mirrors.add(job.stage_key);
  waiting_.push_back(std::move(job));
  start_workers();
}

void MirrorQueue::start_workers() {
  while (overdue_at_.size() < core_.options.mirror_concurrency && may_send())
    asio::co_spawn(pool_.io().get_executor(), work(take()), LogBug{"mirroring"});
}

bool MirrorQueue::may_send() const {
  if (waiting_.empty()) return false;
  const MirrorJob& next = waiting_.front();
  const auto& load = next.pair.incumbent.in_flight;
  const auto now = Deadlines::Time::clock::now();
  const auto overdue = std::ranges::count_if(overdue_at_, [now](const auto& at) { return at <= now; });
  const auto others = std::ssize(overdue_at_) - overdue;
  // The first one of this thread need not wait for copies of other threads, whose end it does not hear of.
  if (others == 0 || !load) return true;
  return std::max<std::int64_t>(others, std::int64_t{next.engine->in_flight()} - overdue) < *load;
}

MirrorJob MirrorQueue::take() {
  MirrorJob job = std::move(waiting_.front());
  waiting_.pop_front();
  const double took_ms = job.pair.incumbent.total_ms;
  const std::chrono::duration<double, std::milli> long_for_it(took_ms > 0 ? kOverdueTimes * took_ms : 0);
  job.overdue_at = Deadlines::Time::clock::now() +
                   std::max<Deadlines::Time::duration>(
                       kLeastOverdue, std::chrono::duration_cast<Deadlines::Time::duration>(long_for_it));
  overdue_at_.push_back(job.overdue_at);
  return job;
}

/// A failure says nothing of what the engine computes.
void MirrorQueue::keep(const MirrorJob& job) {
  const auto& answer = job.pair.incumbent;
  record(job, answer.reason.empty() && answer.status / 100 == 2);
}

Task<void> MirrorQueue::work(MirrorJob job) {
  for (;;) {
    co_await ask(job);
    overdue_at_.erase(std::ranges::find(overdue_at_, job.overdue_at));
    if (!may_send()) break;
    job = take();
    start_workers();
  }
}

Task<void> MirrorQueue::ask(MirrorJob& job) {
  const Closing closing{core_.mirrors, job.stage_key};
  if (still_wanted(job)) {
    co_await run(job);
  } else {
    core_.ledger.count_mirror(job.model, job.stage_key, MirrorEnd::skipped);
  }
}

/// Queued copies of a stage that was aborted, rolled back or reverted put no load on the engine any more.
bool MirrorQueue::still_wanted(const MirrorJob& job) const {
  const auto route = core_.routes.find(job.model);
  return route && route->stage_key == job.stage_key && route->mirror_bp > 0;
}

Task<void> MirrorQueue::run(MirrorJob& job) {
  const auto begin = Deadlines::Time::clock::now();
  const auto elapsed = [begin] {
    return std::chrono::duration<double, std::milli>(Deadlines::Time::clock::now() - begin).count();
  };
  AnswerJudge judge(job.stream);
  if (job.engine->endpoint().has_key()) judge.keyed();
  const ExchangeLimits limits{begin + std::chrono::milliseconds(core_.options.request_deadline_ms),
                              std::chrono::milliseconds(core_.options.between_ms)};
  FirstByteWait wait(job.engine, job.stream);
  Exchange exchange(pool_, deadlines_, job.engine->endpoint(), limits, &wait);
  auto& side = job.pair.candidate;
  bool whole = true;
  std::string why = co_await exchange.start(job.head, job.pair.request_body);
  if (why.empty()) {
    judge.head(exchange.head().status, exchange.head().find("content-type").value_or(""), elapsed());
    for (bool more = true; more && whole;) {
      Exchange::Part part = co_await exchange.next();
      // As users' answers are passed on: a stream with its first part, another answer with its last.
      if (part.reason.empty() && (judge.streamed() || part.end)) exchange.pass_on();
      judge.part(part.data, elapsed());
      whole = side.body.size() + part.data.size() <= kMaxKeptAnswerBytes;
      side.body += part.data;
      why = part.reason;
      more = !part.end && why.empty();
    }
  }
  if (wait.was_late()) judge.late();
  judge.end(why, side.body, elapsed());
  side = judge.side(std::move(side.body));
  side.in_flight = wait.in_flight();
  record(job, whole);
}

void MirrorQueue::record(const MirrorJob& job, bool whole) {
  auto end = job.pair.candidate.reason.empty() ? MirrorEnd::written : MirrorEnd::failed;
  if (!whole) {
    end = MirrorEnd::skipped;
  } else if (auto written = core_.spool.append(job.stage_key, pair_to_line(job.pair)); !written) {
    const auto code = written.error().code;
    const bool expected = code == schema::ErrorCode::limit_exceeded || code == schema::ErrorCode::not_found;
    if (!expected) spdlog::error("router: a mirrored pair is lost: {}", written.error().describe());
    end = MirrorEnd::skipped;
  }
  core_.ledger.count_mirror(job.model, job.stage_key, end);
}

}  // namespace driftgate::route
