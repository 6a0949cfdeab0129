#include "tests/examples/tinylm/server_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <csignal>

#include <chrono>
#include <fstream>
#include <thread>

extern char** environ;

namespace tinylm_tests {
namespace {

constexpr tinylm::Milliseconds kPatience{20'000};

pid_t spawn(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {TINYLM_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int problem = posix_spawn(&child, TINYLM_BINARY, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(problem == 0);
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ServerProcess::ServerProcess(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"serve", "--model", shipped("model"), "--port-file", folder_.file("port")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  child_ = spawn(all);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (port_ == 0 && std::chrono::steady_clock::now() < until) {
    std::ifstream(folder_.file("port")) >> port_;
    REQUIRE_MESSAGE(waitpid(child_, nullptr, WNOHANG) == 0, "the server ended before it listened");
    if (port_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  REQUIRE_MESSAGE(port_ != 0, "the server did not write its port in time");
}

ServerProcess::~ServerProcess() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

tinylm::Socket ServerProcess::connect() const {
  auto socket = tinylm::Socket::connect("127.0.0.1", port_, kPatience);
  REQUIRE_MESSAGE(socket.has_value(), (socket ? "" : socket.error().message));
  return std::move(*socket);
}

tinylm::HttpResponse ServerProcess::request(const std::string& method, const std::string& path,
                                            const std::string& body) const {
  tinylm::HttpConnection connection(connect());
  REQUIRE(connection.socket().send_all(request_bytes(method, path, body), kPatience).has_value());
  auto response = connection.read_response(kPatience);
  REQUIRE_MESSAGE(response.has_value(), (response ? "" : response.error().message));
  return std::move(*response);
}

int ServerProcess::terminate() {
  ::kill(child_, SIGTERM);
  return wait_for(std::exchange(child_, -1));
}

int run_tinylm(const std::vector<std::string>& arguments) {
  return wait_for(spawn(arguments));
}

std::string request_bytes(const std::string& method, const std::string& path, const std::string& body) {
  return method + " " + path + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

}  // namespace tinylm_tests
