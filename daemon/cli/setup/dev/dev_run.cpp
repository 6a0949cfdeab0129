#include "daemon/cli/setup/dev/dev_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/poll_until.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/client.hpp"
#include "daemon/cli/setup/dev/child.hpp"
#include "daemon/cli/setup/ports.hpp"
#include "daemon/cli/setup/role_tokens.hpp"
#include "daemon/cli/setup/working_folder.hpp"
#include "daemon/net/http_client.hpp"
#include "daemon/route/control/router_driver.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using schema::ErrorCode;
using schema::fail;
using schema::Result;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kStartTime{60};   ///< for an engine or the daemon to answer
constexpr seconds kStopTime{30};    ///< for a program to end
constexpr seconds kDrainTime{90};   ///< for the router: users' requests in flight are answered first
constexpr milliseconds kLook{100};  ///< between two looks whether a program answers

/// An engine of dev.json.
struct DevEngine {
  std::string name, url;
  std::vector<std::string> command;
};

Result<std::vector<DevEngine>> read_engines(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::vector<DevEngine>{};
  const auto text = TRY(read_file(file.string()));
  const auto wrong = [&](const std::string& what) {
    return fail(
        ErrorCode::invalid_document,
        fmt::format("{}: {}; it is {{\"engines\": [{{\"name\": …, \"url\": \"http://127.0.0.1:PORT\", "
                    "\"command\": [\"/path/of/program\", …]}}]}}",
                    file.string(), what));
  };
  const auto document = json::parse(text, nullptr, false);
  if (!document.is_object()) return wrong("it is no JSON object");
  std::vector<DevEngine> engines;
  for (const auto& item : member_of(document, "engines")) {
    DevEngine engine{base::text_at(item, "name"), base::text_at(item, "url"), {}};
    for (const auto& word : member_of(item, "command"))
      if (word.is_string()) engine.command.push_back(word.get<std::string>());
    if (engine.name.empty() || engine.name.find('/') != std::string::npos || engine.command.empty() ||
        !engine.command.front().starts_with('/'))
      return wrong("an engine needs a name and a command that begins with an absolute path");
    engines.push_back(std::move(engine));
  }
  return engines;
}

/// SIGINT, SIGTERM and SIGHUP as something to wait for; SIGPIPE does nothing. As before once it is gone.
class Wishes {
 public:
  Wishes() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    ::sigdelset(&set, SIGPIPE);
    fd_ = base::UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC));
  }
  ~Wishes() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Wishes(const Wishes&) = delete;
  Wishes& operator=(const Wishes&) = delete;
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// From now on the next one ends the process.
  void ignore_no_more() const {
    signalfd_siginfo taken{};
    while (base::poll_until(fd(), POLLIN, Clock::now()) > 0 && ::read(fd(), &taken, sizeof taken) > 0) {
    }
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_{};
  base::UniqueFd fd_;
};

fs::path lock_file(const fs::path& folder) {
  return folder / "dev.pid";
}

/// Held by the `dev` that runs in the folder, whose number is in the file.
Result<base::UniqueFd> lock_of(const fs::path& folder) {
  const fs::path path = lock_file(folder);
  base::UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return base::file_failure("open", path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  return fail(
      ErrorCode::conflict,
      fmt::format(
          "driftgate dev runs in {} already: end it with Ctrl-C there, or with 'driftgate dev {} --stop'",
          folder.string(), shell_word(folder.string())));
}

Result<void> check_port(const std::string& address, std::uint16_t port, const std::string& what,
                        const std::string& where) {
  if (port == 0 || is_free_port(address, port)) return {};
  return fail(ErrorCode::conflict,
              fmt::format("port {} for {} is taken by {}: end that, or choose another port in {}", port, what,
                          listener_on(port), where));
}

bool router_answers(const Deployment& deployment) {
  std::error_code error;
  return fs::exists(deployment.router_socket, error) &&
         route::RouterDriver(deployment.router_socket.string(), seconds(2)).info().has_value();
}

/// Ends the router of a deployment, if one runs, and waits until it has ended.
Result<bool> stop_router(const Deployment& deployment) {
  std::error_code error;
  if (!fs::exists(deployment.router_socket, error)) return false;
  route::RouterDriver router(deployment.router_socket.string());
  const auto info = router.info();
  if (!info) return false;
  const base::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, info->pid, 0)));
  TRY(router.shutdown());
  if (!process || base::poll_until(process.get(), POLLIN, Clock::now() + kDrainTime) > 0) return true;
  return fail(
      ErrorCode::deadline_exceeded,
      fmt::format("the router (pid {}) did not end within {} s of being asked to: its users' requests go on",
                  info->pid, kDrainTime.count()));
}

class Folder {
 public:
  Folder(const fs::path& folder, const Deployment& deployment) : folder_(folder), deployment_(deployment) {}

  Result<void> start() {
    auto lock = TRY(lock_of(folder_));
    lock_.emplace(std::move(lock));
    const std::string pid = fmt::format("{}\n", ::getpid());
    if (::ftruncate(lock_->get(), 0) != 0 || !base::write_all(lock_->get(), pid))
      return base::file_failure("write", lock_file(folder_));
    engines_ = TRY(read_engines(folder_ / kDevName));
    TRY(check_ports());
    const fs::path logs = folder_ / "logs";
    if (::mkdir(logs.c_str(), 0700) != 0 && errno != EEXIST) return base::file_failure("make", logs);
    for (const auto& engine : engines_) {
      auto child = TRY(Child::start(engine.name, engine.command, logs / (engine.name + ".log"), Keep::all));
      running_.push_back(std::move(child));
    }
    auto child = running_.begin();
    for (const auto& engine : engines_) TRY(await(*child++, engine.url, "/v1/models"));
    auto daemon = TRY(Child::start(
        "the daemon", {own_executable().string(), "serve", "--config", (folder_ / kSettingsName).string()},
        logs / "daemon.log"));
    daemon_.emplace(std::move(daemon));
    TRY(await(*daemon_, deployment_.url(), "/readyz"));
    return make_role_tokens(deployment_.url(), deployment_.data_dir / "admin.token", folder_ / "tokens");
  }

  /// Until a signal, or the end of the daemon. An engine that ends is told, and nothing else.
  Result<void> wait() {
    for (;;) {
      std::vector<pollfd> watched{{wishes_.fd(), POLLIN, 0}, {daemon_->fd(), POLLIN, 0}};
      for (auto& engine : running_)
        if (!engine.ended()) watched.push_back({engine.fd(), POLLIN, 0});
      if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR)
        return base::file_failure("watch", folder_);
      if (watched[0].revents != 0) return {};
      TRY(check_alive(*daemon_));
      for (auto& engine : running_)
        if (!told_.contains(engine.name()) && engine.ended()) {
          told_.insert(engine.name());
          print_line(fmt::format("the engine {} ended {}; its log: {}", engine.name(), *engine.ended(),
                                 engine.log().string()));
        }
    }
  }

  /// Daemon, router, engines. The first error; it goes on behind one.
  Result<void> stop() {
    wishes_.ignore_no_more();
    Result<void> done;
    if (daemon_ && !daemon_->stop(kStopTime))
      done = fail(ErrorCode::deadline_exceeded,
                  fmt::format("the daemon did not end within {} s and was killed; its log: {}",
                              kStopTime.count(), daemon_->log().string()));
    if (daemon_) {
      const auto router = stop_router(deployment_);
      if (!router && done) done = std::unexpected(router.error());
    }
    while (!running_.empty()) {
      running_.back().stop(kStopTime);
      running_.pop_back();
    }
    return done;
  }

  [[nodiscard]] std::string ready_text() const;

 private:
  Result<void> check_ports() const {
    const std::string settings = (folder_ / kSettingsName).string();
    const auto [address, port] = address_and_port(deployment_.listen);
    if (port == 0)
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("driftgate dev needs a port in the setting 'listen' of {}, such as 127.0.0.1:7433",
                      settings));
    TRY(check_port(address, port, "the API", fmt::format("'listen' of {} and in env.sh", settings)));
    for (const auto& engine : engines_) {
      const auto url = TRY(net::parse_url(engine.url));
      TRY(check_port(url.host, url.port, "the engine " + engine.name, (folder_ / kDevName).string()));
    }
    if (router_answers(deployment_)) return {};  // left by one that was killed: the daemon takes it over
    const auto [users, users_port] = address_and_port(deployment_.router_listen);
    return check_port(users, users_port, "users' traffic", fmt::format("'router.listen' of {}", settings));
  }

  /// Waits until a program answers with a status below 500.
  Result<void> await(Child& child, const std::string& base, const std::string& target) {
    const auto url = TRY(net::parse_url(base));
    const auto end = Clock::now() + kStartTime;
    for (;;) {
      const auto answer = net::HttpClient(url, {.total_timeout = seconds(2)}).send({.target = target});
      TRY(check_alive(child));  // else it is another program's answer
      if (answer && answer->status < 500) return {};
      if (Clock::now() > end)
        return fail(
            ErrorCode::unavailable,
            fmt::format("{} does not answer at {} after {} s; its log ({}) ends:\n{}", child.name(), base,
                        kStartTime.count(), child.log().string(), printable_lines(tail_of(child.log()))));
      if (base::poll_until(wishes_.fd(), POLLIN, Clock::now() + kLook) > 0)
        return fail(ErrorCode::unavailable, "it was stopped while it started");
    }
  }

  static Result<void> check_alive(Child& child) {
    const auto end = child.ended();
    if (!end) return {};
    return fail(ErrorCode::unavailable,
                fmt::format("{} ended {}; its log ({}) ends:\n{}", child.name(), *end, child.log().string(),
                            printable_lines(tail_of(child.log()))));
  }

  static std::string printable_lines(const std::string& text) {
    std::string lines;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find('\n', at), text.size());
      lines += "  " + printable(std::string_view(text).substr(at, end - at)) + "\n";
      at = end + 1;
    }
    return lines;
  }

  const fs::path folder_;
  const Deployment& deployment_;
  Wishes wishes_;
  std::optional<base::UniqueFd> lock_;
  std::vector<DevEngine> engines_;
  std::list<Child> running_;  // in the order of engines_
  std::optional<Child> daemon_;
  std::set<std::string> told_;
};

std::string Folder::ready_text() const {
  const std::string folder = shell_word(folder_.string());
  const fs::path tokens = folder_ / "tokens";
  const std::string url = deployment_.url();
  const auto parsed = net::parse_url(url);
  const auto page = parsed ? net::HttpClient(*parsed, {.total_timeout = seconds(2)}).send({.target = "/"})
                           : Result<net::ClientResponse>(std::unexpected(parsed.error()));
  std::string text = fmt::format("driftgate runs in {}\n", folder_.string());
  const auto token = read_file(role_token_file(tokens, "engineer").string(), 4'096);
  if (page && page->status == 200 && token)
    text += fmt::format("  page     {}/#token={}\n", url, token->substr(0, token->find('\n')));
  text += fmt::format("  API      {}\n  users    http://{}/v1/completions\n", url, deployment_.router_listen);
  for (const auto& engine : engines_) text += fmt::format("  engine   {} at {}\n", engine.name, engine.url);
  text += fmt::format("  tokens   {}:", tokens.string());
  for (const auto& role : role_tokens()) text += fmt::format(" {}", role.name);
  text +=
      fmt::format("\n  logs     {}\nNext, in a shell:\n  . {}/env.sh\n  driftgate apply -f {}/apply.yaml\n",
                  (folder_ / "logs").string(), folder, folder);
  return text;
}

}  // namespace

Result<void> run_folder(const fs::path& folder, const Deployment& deployment,
                        const std::function<void(const std::string&)>& on_ready) {
  Folder all(folder, deployment);
  auto done = all.start();
  if (done) {
    on_ready(all.ready_text());
    done = all.wait();
  }
  const auto stopped = all.stop();
  return done ? stopped : done;
}

Result<bool> stop_folder(const fs::path& folder, const Deployment& deployment) {
  const auto lock = lock_of(folder);
  if (lock) return stop_router(deployment);
  if (lock.error().code != ErrorCode::conflict) return std::unexpected(lock.error());
  const auto text = TRY(read_file(lock_file(folder).string(), 64));
  const int pid = std::atoi(text.c_str());
  const base::UniqueFd process(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1);
  if (!process) return stop_router(deployment);
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0);
  constexpr seconds kAll = kStopTime + kDrainTime + kStopTime;
  if (base::poll_until(process.get(), POLLIN, Clock::now() + kAll) > 0) return true;
  return fail(ErrorCode::deadline_exceeded,
              fmt::format("driftgate dev (pid {}) did not end within {} s", pid, kAll.count()));
}

}  // namespace driftgate::cli
