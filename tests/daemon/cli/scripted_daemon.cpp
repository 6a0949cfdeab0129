#include "scripted_daemon.hpp"

#include <chrono>
#include <fstream>
#include <iterator>

namespace driftgate::cli::test {
namespace {

std::string name_of(const net::Request& request) {
  std::string name = request.method + " " + request.path;
  char before = '?';
  for (const auto& [key, value] : request.query) {
    name += before + key + "=" + value;
    before = '&';
  }
  return name;
}

}  // namespace

ScriptedDaemon::ScriptedDaemon() {
  answer = [this](const net::Request& request) { return reply(request); };
  server_ = std::move(*net::Server::start({}, *this));
}

ScriptedDaemon::~ScriptedDaemon() {
  server_->stop(std::chrono::seconds(1));
}

net::Response ScriptedDaemon::reply(const net::Request& request) {
  const std::scoped_lock lock(mutex_);
  requests_.push_back(request);
  const auto found = answers_.find(name_of(request));
  if (found != answers_.end()) return found->second;
  return net::plain_problem(404, "not_found", "nothing is scripted for " + name_of(request));
}

void ScriptedDaemon::on(const std::string& request, const std::string& body, int status) {
  const std::scoped_lock lock(mutex_);
  net::Response response;
  response.status = status;
  response.body = body;
  answers_[request] = std::move(response);
}

void ScriptedDaemon::stream(const std::string& request, const std::string& events) {
  on(request, events);
  const std::scoped_lock lock(mutex_);
  answers_[request].headers.push_back({"Content-Type", "text/event-stream"});
}

std::string ScriptedDaemon::url() const {
  return "http://127.0.0.1:" + std::to_string(server_->port());
}

Ran ScriptedDaemon::run(std::vector<std::string> words) {
  words.insert(words.end(), {"--url", url(), "--token-file", file_with("dg_token\n")});
  return run_captured(words);
}

std::vector<net::Request> ScriptedDaemon::requests() {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

std::vector<std::string> ScriptedDaemon::asked() {
  std::vector<std::string> names;
  for (const net::Request& request : requests())
    names.push_back(name_of(request) + (request.body.empty() ? "" : " " + request.body));
  return names;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

}  // namespace driftgate::cli::test
