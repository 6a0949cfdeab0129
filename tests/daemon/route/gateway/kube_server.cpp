#include "tests/daemon/route/gateway/kube_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/base/json_members.hpp"
#include "tests/daemon/net/certificates.hpp"

namespace driftgate::route::gateway {
namespace {

using nlohmann::json;
using Pointer = json::json_pointer;

constexpr std::string_view kRoutes = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes";

net::ServerOptions tls_options() {
  net::ServerOptions options;
  options.tls.certificate = net::test::certificates().file("server.pem");
  options.tls.key = net::test::certificates().file("server.key");
  return options;
}

json status_of(int code, const std::string& reason, const std::string& message) {
  return {{"kind", "Status"},   {"apiVersion", "v1"}, {"status", "Failure"},
          {"message", message}, {"reason", reason},   {"code", code}};
}

/// What has an owner of its own: each label and annotation, and each member of `spec`. Lists are owned as a
/// whole, since those of an HTTPRoute are atomic.
std::map<std::string, json> fields_of(const json& object) {
  std::map<std::string, json> fields;
  for (const char* part : {"/metadata/labels", "/metadata/annotations", "/spec"}) {
    const Pointer at(part);
    if (!object.contains(at)) continue;
    for (const auto& [name, value] : object.at(at).items()) fields.emplace((at / name).to_string(), value);
  }
  return fields;
}

void erase_field(json& object, const std::string& field) {
  const Pointer at(field);
  if (object.contains(at)) object.at(at.parent_pointer()).erase(at.back());
}

std::string path_of(std::string field) {
  std::ranges::replace(field, '/', '.');
  return field;
}

json owner_conflict(const json& causes) {
  auto status = status_of(409, "Conflict", fmt::format("Apply failed with {} conflicts", causes.size()));
  status["details"] = {{"causes", causes}};
  return status;
}

std::string version_in(const json& object) {
  return base::text_at(base::object_at(object, "metadata"), "resourceVersion");
}

std::string name_in(const json& object) {
  return base::text_at(base::object_at(object, "metadata"), "name");
}

}  // namespace

KubeServer::KubeServer(std::string token)
    : token_(std::move(token)),
      server_([this](const net::Request& request) { return respond(request); }, tls_options()) {}

void KubeServer::set_token(std::string token) {
  const std::lock_guard lock(mutex_);
  token_ = std::move(token);
}

void KubeServer::answer_next(int status, std::string body) {
  const std::lock_guard lock(mutex_);
  planned_.push_back({status, std::move(body)});
}

std::vector<std::string> KubeServer::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

net::Response KubeServer::respond(const net::Request& request) {
  const std::lock_guard lock(mutex_);
  std::string query;
  for (const auto& [name, value] : request.query)
    query += fmt::format("{}{}={}", query.empty() ? "?" : "&", name, value);
  seen_.push_back(fmt::format("{} {}{}", request.method, request.path, query));
  Answer answer;
  if (!planned_.empty()) {
    answer = std::move(planned_.front());
    planned_.erase(planned_.begin());
  } else if (request.header("authorization") != "Bearer " + token_) {
    answer = {401, status_of(401, "Unauthorized", "Unauthorized")};
  } else {
    answer = dispatch(request);
  }
  net::Response response;
  response.status = answer.status;
  response.headers.push_back({"Content-Type", "application/json"});
  response.body = answer.body.is_string() ? answer.body.get<std::string>() : answer.body.dump();
  return response;
}

KubeServer::Answer KubeServer::dispatch(const net::Request& request) {
  if (!request.path.starts_with(kRoutes)) return {404, status_of(404, "NotFound", "no such resource")};
  auto below = request.path.substr(kRoutes.size());
  const std::string manager(request.query_value("fieldManager").value_or("unknown"));
  if (below.empty() && request.method == "GET")
    return list(std::string(request.query_value("labelSelector").value_or("")));
  if (below.empty() && request.method == "POST") return create(json::parse(request.body), manager);
  const bool status = below.ends_with("/status");
  if (status) below.resize(below.size() - std::string_view("/status").size());
  return below.starts_with('/') ? on_object(request, below.substr(1), status)
                                : Answer{405, status_of(405, "MethodNotAllowed", "not here")};
}

KubeServer::Answer KubeServer::on_object(const net::Request& request, const std::string& name, bool status) {
  const auto found = stored_.find(name);
  if (found == stored_.end())
    return {404, status_of(404, "NotFound", fmt::format("httproutes \"{}\" not found", name))};
  if (request.method == "GET") return {200, found->second.object};
  if (request.method == "DELETE") {
    stored_.erase(found);
    return {200, {{"kind", "Status"}, {"status", "Success"}}};
  }
  if (request.method != "PATCH") return {405, status_of(405, "MethodNotAllowed", "not here")};
  const auto sent = json::parse(request.body);
  const auto type = request.header("content-type").value_or("");
  const std::string manager(request.query_value("fieldManager").value_or("unknown"));
  if (type == "application/apply-patch+yaml")
    return apply(found->second, sent, manager, request.query_value("force") == "true");
  if (type != "application/merge-patch+json")
    return {415, status_of(415, "UnsupportedMediaType", "not this one")};
  return status ? put_status(found->second, sent) : merge(found->second, sent, manager);
}

KubeServer::Answer KubeServer::list(const std::string& selector) const {
  const auto equals = selector.find('=');
  auto items = json::array();
  for (const auto& [name, stored] : stored_) {
    const auto labels = base::object_at(base::object_at(stored.object, "metadata"), "labels");
    const bool chosen = equals == std::string::npos ||
                        base::text_at(labels, selector.substr(0, equals)) == selector.substr(equals + 1);
    if (chosen) items.push_back(stored.object);
  }
  return {200, {{"kind", "HTTPRouteList"}, {"apiVersion", "gateway.networking.k8s.io/v1"}, {"items", items}}};
}

KubeServer::Answer KubeServer::create(const json& object, const std::string& manager) {
  const auto name = name_in(object);
  if (stored_.contains(name))
    return {409, status_of(409, "AlreadyExists", fmt::format("httproutes \"{}\" already exists", name))};
  auto& stored = stored_[name];
  stored.object = object;
  stored.object["metadata"]["generation"] = 1;
  stored.object["metadata"]["resourceVersion"] = std::to_string(++version_);
  for (const auto& [field, value] : fields_of(object)) stored.owners[field] = {manager + "/Update"};
  return {201, stored.object};
}

KubeServer::Answer KubeServer::apply(Stored& stored, const json& wanted, const std::string& manager,
                                     bool force) {
  const auto version = version_in(wanted);
  if (!version.empty() && version != version_in(stored.object))
    return {409, status_of(409, "Conflict",
                           "the object has been modified; please apply your changes to the latest")};
  const auto owner = manager + "/Apply";
  const auto sent = fields_of(wanted);
  const auto held = fields_of(stored.object);
  auto causes = json::array();
  auto next = stored.object;
  auto owners = stored.owners;
  for (const auto& [field, value] : sent) {
    const auto there = held.find(field);
    auto& of_field = owners[field];
    if (there == held.end() || there->second != value) {
      for (const auto& other : of_field) {
        if (other == owner) continue;
        causes.push_back({{"reason", "FieldManagerConflict"},
                          {"message", fmt::format("conflict with \"{}\" using gateway.networking.k8s.io/v1",
                                                  other.substr(0, other.find('/')))},
                          {"field", path_of(field)}});
      }
      of_field.clear();
      next[Pointer(field)] = value;
    }
    of_field.insert(owner);
  }
  if (!causes.empty() && !force) return {409, owner_conflict(causes)};
  for (auto& [field, of_field] : owners) {
    const bool given_up = !sent.contains(field) && of_field.erase(owner) > 0 && of_field.empty();
    if (given_up) erase_field(next, field);
  }
  stored.owners = std::move(owners);
  replace(stored, std::move(next));
  return {200, stored.object};
}

KubeServer::Answer KubeServer::merge(Stored& stored, const json& patch, const std::string& manager) {
  auto next = stored.object;
  next.merge_patch(patch);
  const auto before = fields_of(stored.object);
  const auto after = fields_of(next);
  for (const auto& [field, value] : after) {
    const auto there = before.find(field);
    if (there == before.end() || there->second != value) stored.owners[field] = {manager + "/Update"};
  }
  for (const auto& [field, value] : before) {
    if (!after.contains(field)) stored.owners.erase(field);
  }
  replace(stored, std::move(next));
  return {200, stored.object};
}

KubeServer::Answer KubeServer::put_status(Stored& stored, const json& patch) {
  auto next = stored.object;
  next["status"] = base::object_at(patch, "status");
  replace(stored, std::move(next));
  return {200, stored.object};
}

/// A change makes a new version of the object; one of `spec` a new generation too.
void KubeServer::replace(Stored& stored, json next) {
  if (next == stored.object) return;
  auto& metadata = next["metadata"];
  if (next["spec"] != stored.object["spec"])
    metadata["generation"] = base::integer_at(metadata, "generation") + 1;
  metadata["resourceVersion"] = std::to_string(++version_);
  stored.object = std::move(next);
}

}  // namespace driftgate::route::gateway
