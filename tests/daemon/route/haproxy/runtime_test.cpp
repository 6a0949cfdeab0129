#include "daemon/route/haproxy/runtime.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "tests/daemon/route/temporary_folder.hpp"

using namespace driftgate::route;
using namespace driftgate::route::haproxy;
using driftgate::schema::ErrorCode;

namespace {

/// A runtime socket that answers each connection's command and closes it, as HAProxy does.
class ScriptedRuntime {
 public:
  using Script = std::function<std::string(const std::string& command)>;

  ScriptedRuntime(std::string path, std::size_t commands, Script script)
      : path_(std::move(path)), listener_(listen_unix(path_).value()), thread_([this, commands, script] {
          for (std::size_t i = 0; i < commands; ++i) serve(script);
        }) {}
  ~ScriptedRuntime() { join(); }
  /// All commands were answered.
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  std::vector<std::string> heard;

 private:
  void serve(const Script& script) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    if (!wait_for(listener_.get(), POLLIN, deadline)) return;
    const driftgate::base::UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, 65'536> bytes;
    const auto got = ::recv(peer.get(), bytes.data(), bytes.size(), 0);
    heard.emplace_back(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const auto answer = script(heard.back());
    (void)::send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  const std::string path_;
  driftgate::base::UniqueFd listener_;
  std::thread thread_;
};

constexpr std::chrono::seconds kPatience{120};

}  // namespace

TEST_CASE("a map is replaced in a version of its own, in parts that fit a command") {
  const TemporaryFolder folder;
  std::vector<MapEntry> entries;
  for (int i = 0; i < 300; ++i) entries.push_back({"key" + std::to_string(i), std::string(60, 'v')});
  std::vector<std::string> heard;
  {
    ScriptedRuntime haproxy(folder.at("s"), 6, [](const std::string& command) {
      return command.starts_with("prepare") ? std::string("New version created: 7\n\n") : std::string("\n");
    });
    REQUIRE(Runtime(folder.at("s"), kPatience).replace_map("/m", entries));
    REQUIRE(Runtime(folder.at("s"), kPatience).tell("nothing"));
    haproxy.join();
    heard = haproxy.heard;
  }
  REQUIRE(heard.size() == 6);
  CHECK(heard[0] == "prepare map /m\n");
  CHECK(heard[1].starts_with("add map @7 /m <<\nkey0 "));
  CHECK(heard[1].ends_with("v\n\n"));
  CHECK(heard[1].size() <= Runtime::kMaxCommandBytes + 100);
  CHECK(heard[2].starts_with("add map @7 /m <<\nkey"));
  CHECK(heard[3].starts_with("add map @7 /m <<\nkey"));
  CHECK(heard[4] == "commit map @7 /m\n");
}

TEST_CASE("a commit that comes after another writer's is refused") {
  const TemporaryFolder folder;
  ScriptedRuntime haproxy(folder.at("s"), 2, [](const std::string& command) {
    return command.starts_with("prepare") ? std::string("New version created: 7\n\n")
                                          : std::string("Version number out of range.\n\n");
  });
  const auto refused = Runtime(folder.at("s"), kPatience).replace_map("/m", {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("out of range") != std::string::npos);
}

TEST_CASE("a HAProxy that is away, silent or of another configuration is told as that") {
  const TemporaryFolder folder;
  const auto away = Runtime(folder.at("none")).ask("show info");
  REQUIRE_FALSE(away);
  CHECK(away.error().code == ErrorCode::unavailable);
  const auto listener = listen_unix(folder.at("silent"));
  REQUIRE(listener);
  const auto silent = Runtime(folder.at("silent"), std::chrono::milliseconds(1)).ask("show info");
  REQUIRE_FALSE(silent);
  CHECK(silent.error().code == ErrorCode::deadline_exceeded);
  ScriptedRuntime other(folder.at("other"), 2, [](const std::string& command) {
    return command.starts_with("get var")
               ? std::string("Variable not found.\n\n")
               : std::string("Unknown map identifier. Please use #<id> or <file>.\n\n");
  });
  const Runtime runtime(folder.at("other"), kPatience);
  CHECK(runtime.number("proc.driftgate_boot").error().message.find("driftgate's configuration") !=
        std::string::npos);
  CHECK(runtime.show_map("/m").error().message.find("Unknown map identifier") != std::string::npos);
}

TEST_CASE("statistics and counters are read by the names of their columns") {
  const auto statistics = parse_statistics(
      "# "
      "pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,"
      "weight,\n"
      "driftgate_1,v1,0,0,2,2,,448,69572,55104,,0,,0,0,0,0,no check,1,\n"
      "driftgate_1,BACKEND,0,0,3,2,1,633,98438,77251,0,0,,0,3,0,0,UP,1,\n\n"
      "# "
      "pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,"
      "weight,\n"
      "driftgate_lease,lease,0,0,0,0,,0,0,0,,0,,0,0,0,0,DOWN 1/2,1,\n\n");
  CHECK(statistics.at("driftgate_1/BACKEND").current == 3);
  CHECK(statistics.at("driftgate_1/v1").current == 2);
  CHECK(statistics.at("driftgate_lease/lease").status == "DOWN 1/2");
  CHECK(parse_statistics("No such proxy.\n").empty());
  const auto counters = parse_counters(
      "# table: driftgate_orders, type: string, size:1024, used:2\n"
      "0x55aa464027e8: key=driftgate_1 use=0 exp=0 gpc0=15\n0x7f5d40046178: key=driftgate_2 use=1 exp=0 "
      "gpc0=1\n");
  CHECK(counters.at("driftgate_1") == 15);
  CHECK(counters.at("driftgate_2") == 1);
  CHECK(counters.size() == 2);
}
