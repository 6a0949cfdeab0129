#include "daemon/cli/live/live_watch.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <mutex>
#include <thread>

#include "daemon/base/unique_fd.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/terminal.hpp"
#include "daemon/cli/live/watched.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"

namespace driftgate::cli::live {
namespace {

using nlohmann::json;
using schema::Result;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenDrawings{100};
constexpr milliseconds kTick{1'000};  // the age of the last message
constexpr milliseconds kSeriesEvery{1'000};
constexpr milliseconds kSeriesAnswer{5'000};
constexpr int kSeriesShare = 10;  // a tenth of the time at most goes into asking for them

std::int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The promotion's series, asked for now and then while a stage runs that measures live.
class SeriesReader {
 public:
  SeriesReader(const Client& client, const std::string& id)
      : client_(client), path_(promotion_path(id) + "/series") {
    client_.allow(kSeriesAnswer);
  }

  /// Asks if it is time to, or `at_once`; null when there is nothing new.
  json read(bool at_once) {
    if (gone_ || (!at_once && Clock::now() < next_)) return nullptr;
    const auto began = Clock::now();
    auto answer = client_.get(path_ + (newest_only_ ? "?last=1" : ""));
    if (!answer && newest_only_ && answer.error().code == schema::ErrorCode::invalid_argument) {
      newest_only_ = false;  // a daemon that gives all points or none
      answer = client_.get(path_);
    }
    // Older daemons have none; any other failure passes, or the stream of events says so too.
    if (!answer && answer.error().code == schema::ErrorCode::not_found) gone_ = true;
    const auto ended = Clock::now();
    next_ = std::max(began + kSeriesEvery, ended + kSeriesShare * (ended - began));
    auto parsed = parse_answer(answer);
    return parsed ? std::move(*parsed) : json(nullptr);
  }

 private:
  Client client_;
  const std::string path_;
  Clock::time_point next_{};
  bool gone_ = false, newest_only_ = true;
};

bool measures_live(const json& promotion) {
  const std::string stage = text_of(promotion, "stage");
  return stage == "canary" || stage == "shadow-runtime";
}

/// A thread that follows the promotion, and what it has seen, for the thread that draws.
class Follower {
 public:
  Follower(const Client& client, const std::string& id, json promotion, std::string until)
      : client_(client),
        until_(std::move(until)),
        series_(client, id),
        path_(promotion_path(id) + "/events"),
        watched_(std::move(promotion), wall_us()),
        news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { follow(); }) {}
  ~Follower() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    thread_.join();
  }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// Readable when there is something new to draw.
  [[nodiscard]] int fd() const { return news_.get(); }
  void take_news() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(news_.get(), &count, sizeof count);
  }

  [[nodiscard]] std::vector<Line> lines(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    return watched_.lines(shape, wall_us());
  }
  [[nodiscard]] bool over() {
    const std::lock_guard lock(mutex_);
    return over_;
  }
  /// The state that it ended in, once it is over.
  [[nodiscard]] Result<std::string> outcome() {
    const std::lock_guard lock(mutex_);
    if (!result_) return std::unexpected(result_.error());
    return text_of(watched_.promotion(), "state");
  }

 private:
  void follow() {
    const StreamHooks hooks{.on_bytes = [this] { return heard(); },
                            .on_cut = [this](const std::string& why) { return lost(why); },
                            .max_resumes = std::numeric_limits<int>::max()};
    auto result = client_.follow(
        path_, [this](const net::SseEvent& event) { return take(event); }, hooks);
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    over_ = true;
    tell();
  }

  bool take(const net::SseEvent& event) {
    bool goes_on = false, live = false;
    {
      const std::lock_guard lock(mutex_);
      goes_on = watched_.take(event, wall_us()) && !is_reached(watched_.promotion(), until_);
      live = measures_live(watched_.promotion());
      tell();
    }
    const bool asks = live && (event.name == "progress" || event.name == "end");
    json series = asks ? series_.read(!goes_on) : json(nullptr);
    if (series.is_object()) {
      const std::lock_guard lock(mutex_);
      watched_.take_series(std::move(series));
      tell();
    }
    return goes_on;
  }

  bool heard() {
    const std::lock_guard lock(mutex_);
    watched_.heard(wall_us());
    tell();
    return !stopped_;
  }

  bool lost(const std::string& why) {
    const std::lock_guard lock(mutex_);
    watched_.lost(why);
    tell();
    return !stopped_;
  }

  void tell() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto told = ::write(news_.get(), &one, sizeof one);
  }

  Client client_;
  const std::string until_;
  SeriesReader series_;
  const std::string path_;
  std::mutex mutex_;
  Watched watched_;
  bool stopped_ = false, over_ = false;
  Result<void> result_;
  base::UniqueFd news_;
  std::thread thread_;  // the last member: it uses the others
};

/// Draws until the promotion is over, or returns false when a signal asks to end.
bool draw_until_over(Terminal& terminal, Follower& follower) {
  for (bool over = false;;) {
    follower.take_news();
    over = follower.over();  // before the drawing, which then shows the end
    terminal.draw(follower.lines(drawable(terminal_shape())));
    if (over || std::ferror(stdout) != 0) return true;
    const auto drawn = Clock::now();
    auto woke = terminal.wait(follower.fd(), kTick);
    if (woke == Terminal::Woke::event) {  // what comes in quick succession is drawn at once
      const auto rest = kBetweenDrawings - std::chrono::duration_cast<milliseconds>(Clock::now() - drawn);
      if (rest.count() > 0) woke = terminal.wait(-1, rest);
    }
    if (woke == Terminal::Woke::ended) return false;
  }
}

}  // namespace

Result<int> watch_live(Client& client, const std::string& id, const std::string& until) {
  auto promotion = TRY(parse_answer(client.get(promotion_path(id))));
  Terminal terminal;
  Follower follower(client, id, std::move(promotion), until);
  if (!draw_until_over(terminal, follower)) {
    print_line("\r\x1b[JThe promotion goes on: driftgate watch " + printable(id));
    terminal.end_by_signal();
  }
  if (std::ferror(stdout) != 0) return kExitIo;
  const std::string state = TRY(follower.outcome());
  return !until.empty() && state == until ? kExitOk : exit_code_of_state(state);
}

}  // namespace driftgate::cli::live
