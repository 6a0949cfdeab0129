#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "captured.hpp"
#include "daemon/base/clock.hpp"
#include "daemon/base/poll_until.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/cli/setup/dev/child.hpp"
#include "daemon/cli/setup/doctor_checks.hpp"
#include "daemon/cli/setup/example_files.hpp"
#include "daemon/cli/setup/key_copies.hpp"
#include "daemon/cli/setup/ports.hpp"
#include "daemon/cli/setup/working_folder.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using namespace driftgate::cli;
using driftgate::cli::test::file_with;
using driftgate::cli::test::has;
using driftgate::cli::test::run_captured;
using driftgate::cli::test::ScriptedDaemon;

namespace {

namespace fs = std::filesystem;

/// A new folder that goes with the process.
fs::path fresh_folder() {
  const fs::path file = file_with("");
  fs::path folder = file.string() + "-folder";
  fs::create_directory(folder);
  return folder;
}

Deployment deployment_in(const fs::path& data) {
  Deployment made;
  made.listen = "127.0.0.1:0";
  made.router_listen = "127.0.0.1:0";
  made.data_plane = "router";
  made.data_dir = data;
  made.router_socket = data / "router.sock";
  made.spool_dir = data / "spool";
  made.head_file = data / "head.note";
  made.head_key = data / "log.key";
  made.attestation_key = data / "attestation.key";
  made.session_key = data / "session.key";
  made.backup_dir = data / "backups";
  made.engine_files = data / "engine-files";
  made.jobs_dir = made.slurm_jobs_dir = data / "jobs";
  return made;
}

bool finds(const Findings& findings, const std::string& where, const std::string& what) {
  for (const auto& one : findings.found())
    if (has(one.where, where) && has(one.what, what) && !one.todo.empty()) return true;
  return false;
}

/// A socket that listens on a port of 127.0.0.1 that the kernel chose.
struct Listening {
  base::UniqueFd socket{::socket(AF_INET, SOCK_STREAM, 0)};
  std::uint16_t port = 0;
  Listening() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
    REQUIRE(::listen(socket.get(), 1) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port = ntohs(at.sin_port);
  }
};

}  // namespace

TEST_CASE("init writes a folder once and changes nothing where it cannot") {
  const fs::path folder = fresh_folder() / "work";
  const auto made = run_captured({"init", folder.string()});
  CHECK(made.exit_code == 0);
  for (const auto* const name : {"driftgate.yaml", "apply.yaml", "env.sh", "dev.json", "README.md"})
    CHECK(fs::is_regular_file(folder / name));
  CHECK(!fs::exists(folder / "traffic.sh"));

  const auto again = run_captured({"init", folder.string()});
  CHECK(again.exit_code != 0);
  CHECK(has(again.err, "not empty"));

  const fs::path other = fresh_folder() / "a" / "b";
  const auto wrong =
      run_captured({"init", other.string(), "--train", "/nonexistent", "--inf", "/nonexistent"});
  CHECK(wrong.exit_code == 74);
  CHECK(!fs::exists(other.parent_path()));
  CHECK(run_captured({"init", other.string(), "--example", "nonsense"}).exit_code == 64);
  CHECK(run_captured({"init", other.string(), "--train", "a"}).exit_code == 64);
  CHECK(
      run_captured({"init", other.string(), "--train", "a", "--inf", "b", "--example", "tinylm"}).exit_code ==
      64);
  const auto deep = run_captured({"init", (fresh_folder() / std::string(100, 'x')).string()});
  CHECK(deep.exit_code == 64);
  CHECK(has(deep.err, "too long"));
  const auto lines = run_captured({"init", (fresh_folder() / "x y\ntouch pwned #").string()});
  CHECK(lines.exit_code == 64);
  CHECK(has(lines.err, "control characters"));
}

TEST_CASE("init suggests a contract from captures and makes their folders roots") {
  const std::string captures = "examples/tinylm/data/captures/";
  const fs::path folder = fresh_folder() / "work";
  const auto made = run_captured({"init", folder.string(), "--train", captures + "numeric_train.safetensors",
                                  "--inf", captures + "numeric_train_batch8.safetensors", "--corpus",
                                  "examples/tinylm/data/numeric.jsonl"});
  REQUIRE(made.exit_code == 0);
  const auto contract = test::text_of_file((folder / "contracts" / "first.yaml").string());
  CHECK(has(contract, "name: \"first\""));
  CHECK(run_captured({"contract", "lint", (folder / "contracts" / "first.yaml").string()}).exit_code == 0);
  const auto settings = test::text_of_file((folder / "driftgate.yaml").string());
  const auto root = fs::canonical("examples/tinylm/data").string();
  CHECK(has(settings, "- \"" + root + "\"\n"));
  CHECK(!has(settings, "- \"" + root + "/captures\""));  // it lies within the other
  CHECK(has(test::text_of_file((folder / "apply.yaml").string()), "contracts/first.yaml"));
}

TEST_CASE("the files of an example name its program, its ports and its captures") {
  FolderPlan plan;
  plan.folder = "/srv/it's here";
  plan.example = ExampleFiles{"/share/tinylm", "/lib/tinylm", "/share/tinylm/contract.yaml"};
  plan.contract = "metadata:\n  name: the-contract\n";
  plan.api_port = 1;
  plan.router_port = 2;
  plan.engine_ports = {3, 4};
  std::map<std::string, FolderFile> files;
  for (const auto& file : folder_files(plan)) files[file.path] = file;
  // The promotion waits for the approval that the line behind it gives.
  CHECK(has(files["README.md"].text, "--wait --until awaiting_approval\n    driftgate approve tinylm"));
  CHECK(has(files["env.sh"].text, "http://127.0.0.1:1\n"));
  CHECK(has(files["env.sh"].text, "'/srv/it'\\''s here/tokens/engineer.token'"));
  CHECK(files["traffic.sh"].mode == 0755);
  CHECK(has(files["apply.yaml"].text, "contract: the-contract\n"));
  CHECK(has(files["apply.yaml"].text, "url: \"http://127.0.0.1:4\""));
  CHECK(has(files["driftgate.yaml"].text, "data_dir: \"/srv/it's here/data\""));
  const auto dev = nlohmann::json::parse(files["dev.json"].text);
  CHECK(dev["engines"][1]["command"][0] == "/lib/tinylm");
  CHECK(dev["engines"][1]["url"] == "http://127.0.0.1:4");
}

TEST_CASE("an example is found in a package, in a share and nowhere else") {
  const fs::path prefix = fresh_folder();
  const fs::path folder = prefix / "share" / "driftgate" / "examples" / "tinylm";
  fs::create_directories(folder / "model");
  CHECK(find_example("tinylm", prefix / "bin" / "driftgate").error().code == schema::ErrorCode::not_found);
  std::ofstream(folder / "model" / "config.json") << "{}";
  std::ofstream(folder / "contract.yaml") << "{}";
  const auto without = find_example("tinylm", prefix / "bin" / "driftgate");
  REQUIRE(!without);
  CHECK(has(without.error().message, "lib/driftgate/tinylm"));
  fs::create_directories(prefix / "lib" / "driftgate");
  std::ofstream(prefix / "lib" / "driftgate" / "tinylm") << "";
  const auto found = find_example("tinylm", prefix / "bin" / "driftgate");
  REQUIRE(found);
  CHECK(found->folder == folder);
  ::setenv("DRIFTGATE_SHARE", (prefix / "share" / "driftgate").c_str(), 1);
  CHECK(find_example("tinylm", "/elsewhere/bin/driftgate").has_value());
  ::unsetenv("DRIFTGATE_SHARE");
}

TEST_CASE("a port that somebody listens on is not free, and who it is can be told") {
  const Listening other;
  CHECK(!is_free_port("127.0.0.1", other.port));
  CHECK(has(listener_on(other.port), std::to_string(::getpid())));
  CHECK(first_free_port(other.port, {}) != other.port);
  CHECK(address_and_port("[::1]:80") == std::pair<std::string, std::uint16_t>{"::1", 80});
  CHECK(address_and_port("nonsense").second == 0);
}

TEST_CASE("a child's end is told, and one that is told to end does") {
  const fs::path folder = fresh_folder();
  auto failing = Child::start("f", {"/bin/sh", "-c", "echo why; exit 3"}, folder / "f.log");
  REQUIRE(failing);
  REQUIRE(base::poll_until(failing->fd(), POLLIN, std::chrono::steady_clock::time_point::max()) > 0);
  REQUIRE(failing->ended());
  CHECK(*failing->ended() == "with exit code 3");
  CHECK(tail_of(folder / "f.log") == "why\n");
  auto lasting = Child::start("l", {"/bin/sleep", "600"}, folder / "l.log");
  REQUIRE(lasting);
  CHECK(!lasting->ended());
  CHECK(lasting->stop(std::chrono::seconds(60)));
  CHECK(!Child::start("n", {"/nonexistent"}, folder / "n.log"));
}

namespace {

/// The end of a named pipe that is read, and how a shell holds the other one: all that it starts has it too.
struct Held {
  fs::path path = fresh_folder() / "pipe";
  base::UniqueFd end;
  Held() {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    end = base::UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  [[nodiscard]] std::string taken() const { return "exec 3>'" + path.string() + "'; "; }
  /// Waits for a byte, then for the end of the last process that has the pipe.
  void await_a_byte() const {
    REQUIRE(base::poll_until(end.get(), POLLIN, std::chrono::steady_clock::time_point::max()) > 0);
    char byte = 0;
    REQUIRE(::read(end.get(), &byte, 1) == 1);
  }
  void await_all_ends() const {
    char byte = 0;
    do REQUIRE(base::poll_until(end.get(), POLLIN, std::chrono::steady_clock::time_point::max()) > 0);
    while (::read(end.get(), &byte, 1) != 0);
  }
  /// Whether nobody has the other end.
  [[nodiscard]] bool is_over() const {
    char byte = 0;
    return ::read(end.get(), &byte, 1) == 0;
  }
};

/// A launcher, what it starts in its group, in a session of its own, and beside it for good. Says "x".
std::vector<std::string> launcher(const Held& held, const std::string& last) {
  return {"/bin/sh", "-c",
          held.taken() + "sleep 600 & setsid sleep 600 & (setsid sh -c 'sleep 600; :' &) ; printf x >&3; " +
              last};
}

}  // namespace

TEST_CASE("what a launcher has started ends with it") {
  const Held told, by_itself, stubborn;
  const fs::path folder = fresh_folder();
  auto lasting = Child::start("l", launcher(told, "wait"), folder / "l.log", Keep::all);
  REQUIRE(lasting);
  told.await_a_byte();
  CHECK(lasting->stop(std::chrono::minutes(5)));
  CHECK(told.is_over());

  auto ending = Child::start("e", launcher(by_itself, "exit 3"), folder / "e.log", Keep::all);
  REQUIRE(ending);
  by_itself.await_a_byte();
  REQUIRE(base::poll_until(ending->fd(), POLLIN, std::chrono::steady_clock::time_point::max()) > 0);
  CHECK(ending->ended() == "with exit code 3");
  CHECK(by_itself.is_over());

  auto deaf = Child::start("d", launcher(stubborn, "trap '' TERM; setsid sleep 600 & sleep 600; sleep 600"),
                           folder / "d.log", Keep::all);
  REQUIRE(deaf);
  stubborn.await_a_byte();
  deaf->stop(std::chrono::milliseconds(0));
  CHECK(stubborn.is_over());

  CHECK(!Child::start("n", {"/nonexistent"}, folder / "n.log", Keep::all));
  auto killed = Child::start("k", {"/bin/sh", "-c", "kill -9 $$"}, folder / "k.log", Keep::all);
  REQUIRE(killed);
  REQUIRE(base::poll_until(killed->fd(), POLLIN, std::chrono::steady_clock::time_point::max()) > 0);
  CHECK(killed->ended() == "by signal 9");
}

TEST_CASE("what a launcher has started ends when the process that runs it is killed") {
  const Held held;
  const fs::path log = fresh_folder() / "l.log";
  const pid_t runs_it = ::fork();
  if (runs_it == 0) {
    auto child = Child::start("l", launcher(held, "wait"), log, Keep::all);
    ::pause();
    ::_exit(0);
  }
  held.await_a_byte();
  ::kill(runs_it, SIGKILL);
  ::waitpid(runs_it, nullptr, 0);
  held.await_all_ends();
}

TEST_CASE("the doctor names folders, secrets and keys that are not as they should be") {
  const fs::path data = fresh_folder();
  ::chmod(data.c_str(), 0755);
  auto deployment = deployment_in(data);
  deployment.roots = {data / "missing", data};
  deployment.adapters = {{"a", "/nonexistent/program"}};
  std::ofstream(data / "driftgate.db") << "";
  std::ofstream(data / "admin.token") << "dg_x";
  ::chmod((data / "admin.token").c_str(), 0644);
  Findings found;
  check_files(deployment, found);
  check_keys(deployment, found);
  check_backups(deployment, base::wall_clock_us(), found);
  CHECK(finds(found, "roots: " + (data / "missing").string(), "No such file"));
  CHECK(finds(found, "adapters: a", "No such file"));
  CHECK(finds(found, "data_dir", "others may enter it"));
  CHECK(finds(found, "admin.token", "others may use this secret (mode 0644)"));
  CHECK(finds(found, "log.key", "the head key is not there"));
  CHECK(finds(found, "backups", "there is none"));
  CHECK(has(found.text(), "error"));
  CHECK(nlohmann::json::parse(found.json())["findings"].size() == found.found().size());
}

TEST_CASE("a copied key is no finding, until it is another key") {
  const fs::path data = fresh_folder();
  const auto deployment = deployment_in(data);
  const auto keys = kept_keys(deployment);
  for (const auto& key : keys) REQUIRE(evidence::SigningKey::generate()->save(key.file.string()));
  Findings before, after, rotated;
  check_keys(deployment, before);
  CHECK(finds(before, "log.key", "no copy of the head key"));
  CHECK(finds(before, "attestation.key", "no copy"));
  const fs::path to = data.string() + "-copies";
  REQUIRE(copy_keys(deployment, to));
  REQUIRE(copy_keys(deployment, to));  // again changes nothing
  struct stat status {};
  REQUIRE(::stat((to / "log.key").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  check_keys(deployment, after);
  CHECK(after.empty());
  fs::remove(keys[0].file);
  REQUIRE(evidence::SigningKey::generate()->save(keys[0].file.string()));
  check_keys(deployment, rotated);
  CHECK(finds(rotated, "log.key", "no copy"));
  const auto refused = copy_keys(deployment, to);
  REQUIRE(!refused);
  CHECK(refused.error().code == schema::ErrorCode::already_exists);
  fs::remove_all(to);
}

TEST_CASE("keys are copied only into a folder of the user's own, apart from data and backups") {
  const fs::path data = fresh_folder(), elsewhere = fresh_folder();
  auto deployment = deployment_in(data);
  deployment.backup_dir = fresh_folder() / "backups";
  for (const auto& key : kept_keys(deployment))
    REQUIRE(evidence::SigningKey::generate()->save(key.file.string()));
  const auto code_of = [&](const fs::path& to) {
    const auto copied = copy_keys(deployment, to);
    return copied ? std::nullopt : std::optional(copied.error().code);
  };
  CHECK(code_of(data / "copies") == schema::ErrorCode::invalid_argument);
  CHECK(code_of(data) == schema::ErrorCode::invalid_argument);
  CHECK(code_of(data.string() + "/") == schema::ErrorCode::invalid_argument);
  CHECK(code_of(deployment.backup_dir / "keys") == schema::ErrorCode::invalid_argument);
  CHECK(!fs::exists(data / "copies"));
  fs::create_directory_symlink(data, elsewhere / "inner");
  CHECK(code_of(elsewhere / "inner" / "copies") == schema::ErrorCode::invalid_argument);
  const fs::path open = elsewhere / "open", own = elsewhere / "own";
  fs::create_directory(open);
  ::chmod(open.c_str(), 0777);
  CHECK(code_of(open) == schema::ErrorCode::forbidden);
  CHECK(fs::is_empty(open));
  fs::create_directory(own);
  fs::create_directory_symlink(own, elsewhere / "link");
  CHECK(code_of(elsewhere / "link") == schema::ErrorCode::io);
  CHECK(code_of((elsewhere / "link").string() + "/") == schema::ErrorCode::io);
  CHECK(fs::is_empty(own));
  CHECK(!code_of(data.string() + "-copies/"));
  fs::remove_all(data.string() + "-copies");
}

TEST_CASE("what root notes of copies belongs to the daemon's user" * doctest::skip(::geteuid() != 0)) {
  constexpr uid_t kDaemon = 65'534;
  const fs::path data = fresh_folder(), to = data.string() + "-copies";
  ::chmod(data.parent_path().c_str(), 0755);  // of mkdtemp
  const auto deployment = deployment_in(data);
  for (const auto& key : kept_keys(deployment)) {
    REQUIRE(evidence::SigningKey::generate()->save(key.file.string()));
    REQUIRE(::chown(key.file.c_str(), kDaemon, kDaemon) == 0);
  }
  REQUIRE(::chown(data.c_str(), kDaemon, kDaemon) == 0);
  fs::create_directory(to);
  REQUIRE(::chown(to.c_str(), kDaemon, kDaemon) == 0);
  const auto refused = copy_keys(deployment, to);
  REQUIRE(!refused);
  CHECK(refused.error().code == schema::ErrorCode::forbidden);
  REQUIRE(::chown(to.c_str(), 0, 0) == 0);
  REQUIRE(copy_keys(deployment, to));
  struct stat status {};
  REQUIRE(::stat((data / "key-copies.json").c_str(), &status) == 0);
  CHECK(status.st_uid == kDaemon);
  CHECK(::geteuid() == 0);
  REQUIRE(::stat((to / "log.key").c_str(), &status) == 0);
  CHECK(status.st_uid == 0);
  fs::remove_all(to);
}

TEST_CASE("notes of copies that cannot be read are no absent copies" * doctest::skip(::geteuid() != 0)) {
  const fs::path data = fresh_folder();
  const auto deployment = deployment_in(data);
  for (const auto& key : kept_keys(deployment))
    REQUIRE(evidence::SigningKey::generate()->save(key.file.string()));
  fs::create_symlink("key-copies.json", data / "key-copies.json");  // not even root can read it
  Findings found;
  check_keys(deployment, found);
  CHECK(!finds(found, "log.key", "no copy"));
  CHECK(has(found.text(), "key-copies.json"));
}

TEST_CASE("the doctor of root looks as the daemon's user" * doctest::skip(::geteuid() != 0)) {
  constexpr uid_t kDaemon = 65'534;
  const fs::path data = fresh_folder(), root = fresh_folder();
  ::chmod(root.parent_path().c_str(), 0755);  // of mkdtemp
  ::chmod(root.c_str(), 0700);
  auto deployment = deployment_in(data);
  deployment.roots = {root};
  ::chmod(data.c_str(), 0700);
  const auto told = [&] { return run_captured({"doctor", "--config", "any", "--json"}, &deployment).out; };
  CHECK(!has(told(), "cannot read it"));
  REQUIRE(::chown(data.c_str(), kDaemon, kDaemon) == 0);
  CHECK(has(told(), "uid 65534 cannot read it"));
  REQUIRE(::chown(root.c_str(), kDaemon, kDaemon) == 0);
  CHECK(!has(told(), "cannot read it"));
  CHECK(::geteuid() == 0);
}

TEST_CASE("the doctor gives a token to nobody but the daemon" * doctest::skip(::geteuid() != 0)) {
  constexpr uid_t kStranger = 65'534;
  const fs::path data = fresh_folder();
  ::chmod(data.c_str(), 0700);
  std::ofstream(data / "admin.token") << "dg_admin\n";
  ::chmod((data / "admin.token").c_str(), 0600);
  auto deployment = deployment_in(data);
  const auto serve = [](ScriptedDaemon& daemon) {
    daemon.on("GET /healthz", R"({"status":"ok"})");
    daemon.on("GET /readyz", R"({"ready":true,"checks":[]})");
    daemon.on("GET /v1/log/checkpoint", "nothing that was signed");
  };
  const auto sent = [](ScriptedDaemon& daemon) {
    std::string all;
    for (const auto& request : daemon.requests())
      if (const auto value = request.header("Authorization")) all += *value;
    return all;
  };
  {
    REQUIRE(::seteuid(kStranger) == 0);
    ScriptedDaemon stranger;
    REQUIRE(::seteuid(0) == 0);
    serve(stranger);
    deployment.listen = stranger.url().substr(std::string("http://").size());
    const auto ran = run_captured({"doctor", "--config", "any"}, &deployment);
    CHECK(ran.exit_code == 1);
    CHECK(has(ran.out, "the port is taken by"));
    CHECK(stranger.requests().empty());
  }
  ScriptedDaemon ours, other;
  serve(ours);
  serve(other);
  deployment.listen = ours.url().substr(std::string("http://").size());
  const auto ran = run_captured({"doctor", "--config", "any"}, &deployment);
  CHECK(has(sent(ours), "Bearer dg_admin"));
  CHECK(has(ran.out, "does not sign its head"));
  CHECK(ran.exit_code == 1);
  ::setenv("DRIFTGATE_TOKEN", "dg_mine", 1);
  run_captured({"doctor", "--config", "any", "--url", other.url()}, &deployment);
  ::unsetenv("DRIFTGATE_TOKEN");
  CHECK(has(sent(other), "Bearer dg_mine"));
  CHECK(!has(sent(other), "dg_admin"));
}

TEST_CASE("a listener of systemd is not taken for a stranger") {
  Listener listener{{0}, 1, 0, "systemd"};
  CHECK(listener.is_waiting());
  CHECK(!listener.is_hidden());
  listener.name = "driftgate";  // of a container
  CHECK(!listener.is_waiting());
  CHECK(Listener{{0}, 0, 0, ""}.is_hidden());
  CHECK(!Listener{{0, 5}, 0, 0, ""}.is_hidden());
  const Listening other;
  const auto found = find_listener(other.port);
  CHECK(found.users == std::set<uid_t>{::geteuid()});
  CHECK(found.pid == ::getpid());
  CHECK(found.holder == ::geteuid());
}

TEST_CASE("the doctor names ports that others have") {
  const Listening other;
  auto deployment = deployment_in(fresh_folder());
  deployment.listen = "127.0.0.1:" + std::to_string(other.port);
  deployment.descriptors = 1ull << 60;
  Findings stopped, running;
  check_processes(deployment, false, stopped);
  CHECK(finds(stopped, "listen", "taken by"));
  CHECK(finds(stopped, "open files", "connections that take"));
  check_processes(deployment, true, running);
  CHECK(!finds(running, "listen: ", "taken"));
  CHECK(finds(running, "router.socket", "No such file"));
}

TEST_CASE("the doctor asks a daemon for engines, schedules and webhooks") {
  ScriptedDaemon daemon;
  daemon.on("GET /healthz", R"({"status":"ok"})");
  daemon.on("GET /readyz", R"({"ready":true,"checks":[{"name":"router","ok":true,"detail":""}]})");
  // The engine is this server too: it answers as another model.
  daemon.on("GET /v1/engines?limit=500",
            R"({"items":[{"name":"e","url":")" + daemon.url() + R"(","kernel":"k"},
    {"name":"gone","url":"http://127.0.0.1:1","kernel":"k"}],"next":null})");
  daemon.on("GET /v1/models?limit=500", R"({"items":[{"name":"m","incumbent":{"engine":"e"}}],"next":null})");
  daemon.on("GET /v1/models", R"({"data":[{"id":"other"}]})");
  daemon.on("GET /v1/schedules?limit=500",
            R"({"items":[{"name":"nightly","owner":"ana","paused":false,"fires":[]}],"next":null})");
  daemon.on("GET /v1/tokens?limit=500", R"({"items":[
    {"name":"ana","scopes":["promoter"],"created_us":2,"revoked_us":3},
    {"name":"ana","scopes":["promoter"],"created_us":1,"revoked_us":null}],"next":null})");
  daemon.on(
      "GET /v1/webhooks",
      R"({"items":[{"name":"chat","disabled":{"reason":"it answered 410"},"last_error":"","pending":0}]})");
  const auto ran = daemon.run({"doctor", "--json"});
  CHECK(ran.exit_code == 1);
  const auto answer = nlohmann::json::parse(ran.out);
  const auto told = answer["findings"].dump();
  CHECK(answer["findings"].size() == 4);
  CHECK(has(told, "answers as other"));
  CHECK(has(told, "does not answer at http://127.0.0.1:1"));
  CHECK(has(told, "the token of ana, who set it last, is revoked"));
  CHECK(has(told, "is disabled: it answered 410"));
}

TEST_CASE("--until is a state, and follows a promotion without --wait") {
  ScriptedDaemon daemon;
  const std::string waiting = R"({"id":"pr-1","model":"m","state":"awaiting_approval"})";
  daemon.on("POST /v1/promotions", R"({"id":"pr-1","model":"m","state":"queued"})", 201);
  daemon.on("GET /v1/promotions/pr-1", waiting);
  daemon.stream("GET /v1/promotions/pr-1/events", "event: progress\ndata: " + waiting + "\n\n");
  const std::vector<std::string> words{"promote", "m", "--engine", "e", "--until"};
  auto wrong = words, right = words;
  wrong.emplace_back("awaiting_aproval");
  right.emplace_back("awaiting_approval");
  CHECK(daemon.run(wrong).exit_code == 64);
  CHECK(daemon.asked().empty());
  const auto followed = daemon.run(right);
  CHECK(followed.exit_code == 0);
  CHECK(has(followed.out, "awaiting_approval"));
}

TEST_CASE("a Date header is read, and nothing else") {
  CHECK(date_from_header("Sun, 06 Nov 1994 08:49:37 GMT") == 784111777);
  CHECK(!date_from_header("Sun, 06 Nov 1994 08:49:37 GMT, more"));
  CHECK(!date_from_header("1994-11-06"));
}

TEST_CASE("a promotion is followed until it waits for approval, and then approved by its model's name") {
  ScriptedDaemon daemon;
  const std::string waiting =
      R"({"id":"pr-1","model":"m","state":"awaiting_approval","approval":{"evidence_digest":"sha256:aa"}})";
  // Another one is queued behind it, and newer.
  daemon.on("GET /v1/models/m", R"({"name":"m","promotion":"pr-1"})");
  daemon.on("GET /v1/promotions?limit=1&model=m", R"({"items":[{"id":"pr-2"}],"next":null})");
  daemon.on("GET /v1/promotions?limit=1&model=m&state=awaiting_approval",
            R"({"items":[{"id":"pr-1"}],"next":null})");
  daemon.on("GET /v1/promotions/pr-1", waiting);
  daemon.on("POST /v1/promotions/pr-1/approve", waiting);
  daemon.stream("GET /v1/promotions/pr-1/events",
                "event: progress\ndata: {\"id\":\"pr-1\",\"state\":\"running\"}\n\n"
                "event: progress\ndata: " +
                    waiting +
                    "\n\n"
                    "event: progress\ndata: {\"id\":\"pr-1\",\"state\":\"never read\"}\n\n");
  const auto followed = daemon.run({"watch", "m", "--until", "awaiting_approval"});
  CHECK(followed.exit_code == 0);
  CHECK(has(followed.out, "awaiting_approval"));
  CHECK(!has(followed.out, "never read"));
  // Not on a terminal, a model's name does not say what was read.
  for (const bool as_json : {false, true}) {
    std::vector<std::string> words{"approve", "m", "--reason", "read"};
    if (as_json) words.emplace_back("--json");
    const auto unread = daemon.run(words);
    CHECK(unread.exit_code == 4);
    CHECK(has(unread.err, "of promotion pr-1 it is --evidence sha256:aa now"));
    CHECK(has(daemon.asked().back(), "GET "));
  }
  CHECK(daemon.run({"approve", "m", "--reason", "read", "--yes"}).exit_code == 0);
  CHECK(has(daemon.asked().back(), "POST /v1/promotions/pr-1/approve"));
  CHECK(daemon.run({"approve", "m", "--reason", "read", "--evidence", "sha256:bb"}).exit_code == 0);
  CHECK(has(daemon.asked().back(), "sha256:bb"));
  CHECK(daemon.run({"explain", "m"}).exit_code == 0);
  CHECK(has(daemon.asked().back(), "GET /v1/promotions/pr-1"));
}
