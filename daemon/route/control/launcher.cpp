#include "daemon/route/control/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kOrderTime{10};  ///< from the connection to the whole order
constexpr std::size_t kMaxWords = 512;
constexpr int kExitOrder = 64;
constexpr int kExitIo = 74;

/// What the process that becomes the router got.
struct TakenOrder {
  base::UniqueFd program;
  std::vector<base::UniqueFd> listeners;
  std::vector<std::string> words;
  std::string log_path;
};

std::unexpected<schema::Error> failed(std::string_view what) {
  return schema::failf(schema::ErrorCode::io, "cannot become the router: {}: {}", what, std::strerror(errno));
}

/// The program alone, then the order with the listening sockets: a message has room for 16 descriptors.
schema::Result<void> send_order(int connection, const LaunchOrder& order,
                                const std::vector<base::UniqueFd>& listeners,
                                std::chrono::steady_clock::time_point deadline) {
  std::vector<base::UniqueFd> program;
  program.emplace_back(::open(order.executable.c_str(), O_RDONLY | O_CLOEXEC));
  if (!program.front())
    return schema::failf(schema::ErrorCode::io, "cannot start the router: opening {}: {}", order.executable,
                         std::strerror(errno));
  json body;
  body["words"] = order.words;
  body["log"] = order.log_path;
  body["listeners"] = listeners.size();
  TRY(send_descriptors(connection, "p", program));
  TRY(write_all(connection, encode_frame(body.dump()), deadline));
  if (!listeners.empty()) TRY(send_descriptors(connection, "l", listeners));
  return {};
}

/// Exactly one byte, with the descriptors beside it: what is read with it must not be of the next message.
schema::Result<std::vector<base::UniqueFd>> receive_marked(int fd, char mark,
                                                           std::chrono::steady_clock::time_point deadline) {
  std::string byte;
  auto received = TRY(receive_descriptors(fd, byte, deadline, 1));
  if (byte.size() == 1 && byte.front() == mark) return received;
  return schema::fail(schema::ErrorCode::invalid_document, "the order for a router is not one");
}

/// One frame, of which nothing that follows is read.
schema::Result<std::string> receive_frame(int fd, std::chrono::steady_clock::time_point deadline) {
  std::string text;
  std::size_t wanted = kFrameHeadBytes;
  while (text.size() < wanted) {
    TRY(receive_descriptors(fd, text, deadline, wanted - text.size()));
    if (text.size() != kFrameHeadBytes) continue;
    std::size_t size = 0;
    for (const char byte : text) size = size << 8 | static_cast<unsigned char>(byte);
    if (size > kMaxFrameBytes)
      return schema::fail(schema::ErrorCode::limit_exceeded, "the order for a router is too long");
    wanted += size;
  }
  return text.substr(kFrameHeadBytes);
}

/// The path that a link of /proc shows, also of a file that was deleted since.
std::string name_of(const std::string& link) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::error_code error;
  auto name = std::filesystem::read_symlink(link, error).string();
  if (name.ends_with(kDeleted)) name.resize(name.size() - kDeleted.size());
  return name;
}

/// Jobs of the daemon run as its user and may connect as well: they must not get a program of theirs into the
/// router's unit, which outlives them and their limits. The order has to be for this very program, or for one
/// that had its name before an upgrade and that nobody else could write.
schema::Result<void> check_program(int program) {
  struct stat asked {
  }, own{};
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  if (::fstat(program, &asked) != 0 || ::stat("/proc/self/exe", &own) != 0)
    return failed("looking at the program");
  if (asked.st_dev == own.st_dev && asked.st_ino == own.st_ino) return {};
  const bool safe = S_ISREG(asked.st_mode) && asked.st_uid == own.st_uid && asked.st_gid == own.st_gid &&
                    (asked.st_mode & kOthersWrite & ~own.st_mode) == 0;
  const auto name = name_of(fmt::format("/proc/self/fd/{}", program));
  if (safe && name == name_of("/proc/self/exe")) return {};
  return schema::failf(schema::ErrorCode::forbidden,
                       "the order for a router names {}, which is neither this program nor one that it "
                       "replaced",
                       name);
}

schema::Result<TakenOrder> receive_order(int fd) {
  const auto deadline = std::chrono::steady_clock::now() + kOrderTime;
  TakenOrder order;
  auto program = TRY(receive_marked(fd, 'p', deadline));
  const auto text = TRY(receive_frame(fd, deadline));
  const auto body = TRY(parse_json(text));
  const auto not_one = [] {
    return schema::fail(schema::ErrorCode::invalid_document, "the order for a router is not one");
  };
  const bool shaped = body.is_object() && body.contains("words") && body["words"].is_array() &&
                      body.contains("log") && body["log"].is_string() && body.contains("listeners") &&
                      body["listeners"].is_number_unsigned();
  if (!shaped || program.size() != 1 || body["words"].empty() || body["words"].size() > kMaxWords)
    return not_one();
  for (const auto& word : body["words"]) {
    if (!word.is_string()) return not_one();
    order.words.push_back(word.get<std::string>());
  }
  if (order.words.size() < 3 || order.words[1] != "router" || order.words[2] == "--launched")
    return not_one();
  order.log_path = body["log"].get<std::string>();
  order.program = std::move(program.front());
  TRY(check_program(order.program.get()));
  const auto count = body["listeners"].get<std::size_t>();
  if (count > 0) order.listeners = TRY(receive_marked(fd, 'l', deadline));
  if (order.listeners.size() != count) return not_one();
  return order;
}

/// The program by its name where the name still leads to it, since the kernel then shows that name.
void execute(int program, char* const* words) {
  struct stat wanted {
  }, own{};
  const bool same = ::fstat(program, &wanted) == 0 && ::stat("/proc/self/exe", &own) == 0 &&
                    wanted.st_dev == own.st_dev && wanted.st_ino == own.st_ino;
  if (same) ::execv("/proc/self/exe", words);
  ::fexecve(program, words, environ);
}

/// Standard input, output and error, then the listening sockets from kFirstListener on; the program behind
/// them.
schema::Result<int> place(const TakenOrder& order) {
  const base::UniqueFd log(::open(order.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const base::UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log || !nothing) return failed(fmt::format("opening its log {}", order.log_path));
  const int count = static_cast<int>(order.listeners.size());
  const int behind = kFirstListener + count;
  std::vector<int> moved;
  for (const auto& listener : order.listeners)
    moved.push_back(::fcntl(listener.get(), F_DUPFD_CLOEXEC, behind + 1));
  const int program = ::fcntl(order.program.get(), F_DUPFD_CLOEXEC, behind + 1);
  ::dup2(log.get(), STDERR_FILENO);
  ::dup2(log.get(), STDOUT_FILENO);
  ::dup2(nothing.get(), STDIN_FILENO);
  for (int i = 0; i < count; ++i) ::dup2(moved[static_cast<std::size_t>(i)], kFirstListener + i);
  if (::dup3(program, behind, O_CLOEXEC) < 0) return failed("placing its descriptors");
  ::close_range(static_cast<unsigned>(behind) + 1, UINT_MAX, 0);
  return behind;
}

/// The daemon may be gone, or not read the answer: it then starts another router, which finds this one.
void answer(int fd, const json& body) {
  const auto deadline = std::chrono::steady_clock::now() + kOrderTime;
  [[maybe_unused]] const auto told = write_all(fd, encode_frame(body.dump()), deadline);
}

int refuse(int fd, const schema::Error& error) {
  fmt::print(stderr, "driftgate: {}\n", error.describe());
  json body;
  body["ok"] = false;
  body["error"] = error.describe();
  answer(fd, body);
  return error.code == schema::ErrorCode::io ? kExitIo : kExitOrder;
}

}  // namespace

schema::Result<ProcessHandle> launch_by(const std::string& launcher, const LaunchOrder& order,
                                        const std::vector<base::UniqueFd>& listeners,
                                        std::chrono::steady_clock::time_point deadline) {
  const auto connection = connect_unix(launcher);
  if (!connection)
    return schema::wrap(
        connection.error(),
        "cannot start the router: nobody listens on DRIFTGATE_ROUTER_LAUNCHER (under systemd: "
        "systemctl start driftgate-router.socket)");
  const int fd = connection->get();
  TRY(send_order(fd, order, listeners, deadline));
  std::string buffer;
  const auto text = read_frame(fd, buffer, deadline);
  if (!text)
    return schema::wrap(text.error(), fmt::format("cannot start the router: no answer through {}", launcher));
  const auto reply = TRY(parse_json(*text));
  if (reply.is_object() && reply.contains("pid") && reply["pid"].is_number_integer())
    return ProcessHandle::of(reply["pid"].get<int>());
  const bool says = reply.is_object() && reply.contains("error") && reply["error"].is_string();
  return schema::failf(schema::ErrorCode::io, "cannot start the router: {}",
                       says ? reply["error"].get<std::string>() : "the launcher's answer is none");
}

int become_launched_router() {
  const base::UniqueFd daemon(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, kFirstListener));
  if (!daemon || ::fcntl(daemon.get(), F_SETFL, O_NONBLOCK) != 0) {
    fmt::print(
        stderr,
        "driftgate: 'router --launched' is for a service manager, which passes the daemon's connection\n");
    return kExitOrder;
  }
  auto order = receive_order(daemon.get());
  if (!order) return refuse(daemon.get(), order.error());
  std::vector<char*> words;
  for (auto& word : order->words) words.push_back(word.data());
  words.push_back(nullptr);
  // The answer comes before the descriptors are placed, which closes the connection. What fails from there on
  // the daemon sees as the end of the process.
  json body;
  body["ok"] = true;
  body["pid"] = ::getpid();
  answer(daemon.get(), body);
  const auto program = place(*order);
  if (!program) return refuse(STDIN_FILENO, program.error());
  execute(*program, words.data());
  fmt::print(stderr, "driftgate: cannot execute the router program: {}\n", std::strerror(errno));
  return kExitIo;
}

}  // namespace driftgate::route
