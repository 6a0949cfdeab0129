#include "tests/daemon/route/gateway/cluster.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "daemon/base/json_members.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/net/url.hpp"
#include "daemon/route/gateway/http_route.hpp"
#include "tests/daemon/net/certificates.hpp"
#include "tests/daemon/route/haproxy/test_planes.hpp"

namespace driftgate::route::gateway {
namespace {

using nlohmann::json;

constexpr const char* kToken = "first-token";
constexpr const char* kMergeType = "application/merge-patch+json";
constexpr const char* kNow = "2026-01-01T00:00:00Z";
constexpr std::chrono::milliseconds kWatchEvery{10};

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

net::HttpClient client_for(const RouterOptions& options) {
  auto url = net::parse_url(options.gateway_api);
  if (!url) throw std::runtime_error(url.error().describe());
  net::ClientOptions client;
  client.tls.ca = options.gateway_ca_file;
  client.keep_alive = true;
  return net::HttpClient(std::move(*url), std::move(client));
}

std::string token_in(const std::string& path) {
  auto text = base::read_file(path);
  if (!text) throw std::runtime_error(text.error().describe());
  while (text->ends_with('\n')) text->pop_back();
  return std::move(*text);
}

std::string name_of(const json& object) {
  return object.at("metadata").at("name").get<std::string>();
}

json condition(const char* type, const std::string& status, const json& generation) {
  return {{"type", type},
          {"status", status},
          {"reason", status == "True" ? type : "NotThisOne"},
          {"message", "said by the test's controller"},
          {"lastTransitionTime", kNow},
          {"observedGeneration", generation}};
}

/// A controller has spoken of each parent and of this generation.
bool is_said(const json& object) {
  const auto status = base::object_at(object, "status");
  const auto* parents = base::member(status, "parents");
  return parents != nullptr && !parents->empty() &&
         parents->front().at("conditions").front().at("observedGeneration") ==
             object.at("metadata").at("generation");
}

}  // namespace

ApiUser::ApiUser(const RouterOptions& options)
    : routes_(fmt::format("/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes",
                          options.gateway_namespace)),
      token_(token_in(options.gateway_token_file)),
      label_(fmt::format("{}={}", kInstallationLabel, options.gateway_name)),
      client_(client_for(options)) {}

json ApiUser::ask(const std::string& method, const std::string& below, const std::string& type,
                  const json& body) {
  net::ClientRequest request;
  request.method = method;
  request.target = routes_ + below;
  request.headers.push_back({"Authorization", "Bearer " + token_});
  if (!type.empty()) request.headers.push_back({"Content-Type", type});
  if (!body.is_null()) request.body = body.dump();
  const auto response = client_.send(request);
  if (!response) throw std::runtime_error(response.error().describe());
  if (response->status < 200 || response->status > 299)
    throw std::runtime_error(fmt::format("{} {}: {} {}", method, below, response->status, response->body));
  return json::parse(response->body);
}

json ApiUser::list() {
  return ask("GET", "?labelSelector=" + net::percent_encode(label_)).at("items");
}

json ApiUser::only() {
  auto items = list();
  if (items.size() != 1)
    throw std::runtime_error(fmt::format("there are {} HTTPRoutes, not one", items.size()));
  return items.front();
}

void ApiUser::create(const json& object, const std::string& manager) {
  ask("POST", "?fieldManager=" + manager, "application/json", object);
}

void ApiUser::merge(const std::string& name, const json& patch, const std::string& manager) {
  ask("PATCH", fmt::format("/{}?fieldManager={}", name, manager), kMergeType, patch);
}

void ApiUser::remove(const std::string& name) {
  ask("DELETE", "/" + name);
}

void ApiUser::say(const json& object, const std::string& accepted, const std::string& resolved) {
  const auto& generation = object.at("metadata").at("generation");
  auto parents = json::array();
  for (const auto& parent : object.at("spec").at("parentRefs")) {
    auto conditions = json::array();
    conditions.push_back(condition("Accepted", accepted, generation));
    conditions.push_back(condition("ResolvedRefs", resolved, generation));
    parents.push_back(
        {{"parentRef", parent}, {"controllerName", "driftgate.test/controller"}, {"conditions", conditions}});
  }
  ask("PATCH", fmt::format("/{}/status?fieldManager=controller", name_of(object)), kMergeType,
      {{"status", {{"parents", parents}}}});
}

void ApiUser::accept() {
  if (!holds_in_time([this] { return list().size() == 1; }))
    throw std::runtime_error("no HTTPRoute was made");
  say(only());
}

Cluster::Cluster() : url_(environment("DRIFTGATE_KUBE_API")) {
  static std::atomic<int> number = 0;
  name_ = fmt::format("test-{}-{}", ::getpid(), ++number);
  if (url_.empty()) {
    server_ = std::make_unique<KubeServer>(kToken);
    url_ = fmt::format("https://127.0.0.1:{}", server_->port());
    ca_ = net::test::certificates().file("ca.pem");
    token_file_ = folder_.at("token");
    write_token(kToken);
  } else {
    ca_ = environment("DRIFTGATE_KUBE_CA");
    token_file_ = environment("DRIFTGATE_KUBE_TOKEN");
  }
  user_.emplace(options());
}

Cluster::~Cluster() {
  try {
    if (!server_) {
      for (const auto& object : user_->list()) user_->remove(name_of(object));
    }
  } catch (const std::exception&) {  // what is left over bears the name of this test alone
  }
}

void Cluster::write_token(const std::string& token) const {
  std::ofstream(token_file_, std::ios::trunc) << token << '\n';
}

void Cluster::set_options(RouterOptions& options) const {
  options.gateway_api = url_;
  options.gateway_ca_file = ca_;
  options.gateway_token_file = token_file_;
  options.gateway_namespace = "default";
  options.gateway_name = name_;
  options.gateway_parents = "public,edge/inner/https";
  options.gateway_hostnames = "llm.example.org";
  options.gateway_router = "driftgate-router:8080";
}

RouterOptions Cluster::options() const {
  RouterOptions options;
  set_options(options);
  return options;
}

Controller::Controller(const Cluster& cluster) : user_(cluster.options()), thread_([this] { run(); }) {}

Controller::~Controller() {
  stop_ = true;
  thread_.join();
}

/// Looks again and again, where a controller would watch.
void Controller::run() {
  while (!stop_) {
    try {
      for (const auto& object : user_.list()) {
        if (!is_said(object)) user_.say(object);
      }
    } catch (const std::exception&) {  // the test ends, or the object has just gone
    }
    std::this_thread::sleep_for(kWatchEvery);
  }
}

}  // namespace driftgate::route::gateway
