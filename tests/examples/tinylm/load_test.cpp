#include <sys/eventfd.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/examples/tinylm/server_process.hpp"

using namespace tinylm;
using nlohmann::json;
using tinylm_tests::run_tinylm;
using tinylm_tests::shipped;

namespace {

constexpr Milliseconds kPatience{20'000};

/// A server for one connection. It answers completions with a text, and chat completions with what it is
/// given.
class OneConnection {
 public:
  explicit OneConnection(json chat_choice)
      : chat_choice_(std::move(chat_choice)), listener_(Socket::listen("127.0.0.1", 0).value()) {
    REQUIRE(wake_ >= 0);
    thread_ = std::jthread([this] { serve(); });
  }
  ~OneConnection() { ::close(wake_); }
  OneConnection(const OneConnection&) = delete;
  OneConnection& operator=(const OneConnection&) = delete;

  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(listener_.local_port().value());
  }

  /// The bodies of the requests by their path, once the client has gone.
  std::map<std::string, std::vector<json>> requests() {
    REQUIRE(::eventfd_write(wake_, 1) == 0);  // for a client that never came
    thread_.join();
    return std::move(requests_);
  }

 private:
  void serve() {
    auto socket = listener_.accept(wake_);
    if (!socket || !socket->open()) return;
    HttpConnection connection(std::move(*socket));
    while (true) {
      const auto request = connection.read_request(kPatience, kPatience);
      if (!request || !*request) return;
      requests_[(*request)->target].push_back(json::parse((*request)->body));
      const bool chat = (*request)->target == "/v1/chat/completions";
      const json answer{{"choices", json::array({chat ? chat_choice_ : json{{"text", "a"}}})}};
      const auto bytes = http_response(200, "application/json", answer.dump(), true);
      if (!connection.socket().send_all(bytes, kPatience)) return;
    }
  }

  json chat_choice_;
  Socket listener_;
  int wake_ = ::eventfd(0, EFD_CLOEXEC);
  std::map<std::string, std::vector<json>> requests_;
  std::jthread thread_;
};

json load(const OneConnection& server, const std::string& chat_share) {
  const tinylm_tests::TemporaryFolder folder;
  CHECK(run_tinylm({"load", "--url", server.url(), "--prompts", shipped("data/prompts.jsonl"), "--rate",
                    "2000", "--requests", "60", "--concurrency", "1", "--stream-share", "0", "--chat-share",
                    chat_share, "--json", folder.file("report")}) == 0);
  std::ifstream file(folder.file("report"));
  return json::parse(file);
}

}  // namespace

TEST_CASE("a share of the load is sent as chat completions") {
  const json message{{"role", "assistant"}, {"content", "a"}};
  OneConnection server(json{{"message", message}});
  CHECK(load(server, "0.5")["ok"] == 60);
  auto requests = server.requests();
  const auto& chats = requests["/v1/chat/completions"];
  const auto& completions = requests["/v1/completions"];
  CHECK(chats.size() + completions.size() == 60);
  CHECK(chats.size() > 15);
  CHECK(completions.size() > 15);
  for (const json& body : chats) {
    CHECK_FALSE(body.contains("prompt"));
    REQUIRE(body["messages"].size() == 1);
    CHECK(body["messages"][0]["role"] == "user");
    CHECK(body["messages"][0]["content"].is_string());
  }
  for (const json& body : completions) {
    CHECK(body["prompt"].is_string());
    CHECK_FALSE(body.contains("messages"));
  }
}

TEST_CASE("a chat completion without a message has failed") {
  OneConnection server(json{{"text", "a"}});
  const json report = load(server, "1");
  CHECK(report["ok"] == 0);
  CHECK(report["failed"] == 60);
  CHECK(server.requests()["/v1/completions"].empty());
}

TEST_CASE("a connection that is closed without a response has failed") {
  auto listener = Socket::listen("127.0.0.1", 0).value();
  HttpConnection connection(Socket::connect("127.0.0.1", listener.local_port().value(), kPatience).value());
  const int wake = ::eventfd(0, EFD_CLOEXEC);
  CHECK(listener.accept(wake).has_value());  // and closes it
  ::close(wake);
  const auto response = connection.read_response(kPatience);
  REQUIRE_FALSE(response.has_value());
  CHECK(response.error().message == "the connection was closed without a response");
}
