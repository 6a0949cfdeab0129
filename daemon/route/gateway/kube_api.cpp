#include "daemon/route/gateway/kube_api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/base/json_members.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/net/url.hpp"
#include "daemon/route/gateway/http_route.hpp"
#include "daemon/route/table/route_json.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::gateway {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr std::string_view kApplier = "driftgate";  // owns the fields that are applied
/// Makes HTTPRoutes. Making is no apply and so has an owner of its own, whose fields the first apply takes
/// over.
constexpr std::string_view kCreator = "driftgate-create";
constexpr const char* kApplyType = "application/apply-patch+yaml";  // JSON is YAML
constexpr std::size_t kMaxAnswerBytes = 32u << 20;
constexpr std::size_t kMaxTold = 500;  // bytes of what the API server says

constexpr int kConflict = 409;

/// A bearer token in a header must be one word.
schema::Result<std::string> read_token(const std::string& path) {
  const auto text = TRY(base::read_file(path));
  std::string_view token = text;
  while (token.ends_with('\n') || token.ends_with('\r')) token.remove_suffix(1);
  const bool good =
      !token.empty() && std::ranges::all_of(token, [](char byte) { return byte > ' ' && byte <= '~'; });
  if (good) return std::string(token);
  return schema::failf(ErrorCode::io,
                       "{} (setting gateway.token_file) does not hold the token of a service account", path);
}

bool is_loopback(const std::string& host) {
  return host == "127.0.0.1" || host == "::1" || host == "localhost";
}

ErrorCode code_of(int status) {
  switch (status) {
    case 401:
      return ErrorCode::unauthenticated;
    case 403:
      return ErrorCode::forbidden;
    case 404:
      return ErrorCode::not_found;
    case kConflict:
      return ErrorCode::conflict;
    default:
      return status == 429 || status >= 500 ? ErrorCode::unavailable : ErrorCode::invalid_argument;
  }
}

std::string_view advice_for(int status) {
  switch (status) {
    case 401:
      return "; the API server does not know the token in gateway.token_file";
    case 403:
      return "; the service account needs get, list, create and patch of httproutes in that namespace";
    case 404:
      return "; are the Gateway API's CustomResourceDefinitions installed, with HTTPRoute v1?";
    default:
      return "";
  }
}

/// The API server's Status object, or what came in its place.
json status_in(const net::ClientResponse& response) {
  const auto parsed = parse_json(response.body);
  return parsed && parsed->is_object() ? *parsed : json::object();
}

std::unexpected<schema::Error> failure(const net::ClientResponse& response, std::string_view what) {
  const auto status = status_in(response);
  auto said = base::maybe_text_at(status, "message").value_or(response.body);
  if (said.size() > kMaxTold) said.resize(kMaxTold);
  return schema::failf(code_of(response.status), "the Kubernetes API answers {} to {}: {}{}", response.status,
                       what, said, advice_for(response.status));
}

/// An object of the API.
schema::Result<json> object_in(const net::ClientResponse& response, std::string_view what) {
  if (response.status < 200 || response.status > 299) return failure(response, what);
  auto parsed = parse_json(response.body);
  if (!parsed)
    return schema::wrap(parsed.error(), fmt::format("cannot read the Kubernetes API's answer to {}", what));
  if (!parsed->is_object())
    return schema::failf(ErrorCode::invalid_document, "the Kubernetes API's answer to {} is no object", what);
  return parsed;
}

/// What a conflict of owners is about: `conflict with "kubectl-edit" using … at …: .spec.rules`.
struct Owners {
  std::string told;
  bool all_ours = true;  ///< every one of them is the maker of HTTPRoutes
};

/// Nothing when the conflict is another one: the object's version.
std::optional<Owners> owners_in(const json& status) {
  const auto details = base::object_at(status, "details");
  const auto* causes = base::member(details, "causes");
  if (causes == nullptr || !causes->is_array() || causes->empty()) return std::nullopt;
  const auto ours = fmt::format("conflict with \"{}\"", kCreator);
  Owners owners;
  for (const auto& cause : *causes) {
    if (base::text_at(cause, "reason") != "FieldManagerConflict") continue;
    const auto message = base::text_at(cause, "message");
    owners.all_ours = owners.all_ours && message.starts_with(ours);
    owners.told +=
        fmt::format("{}{}: {}", owners.told.empty() ? "" : "; ", message, base::text_at(cause, "field"));
  }
  if (owners.told.empty()) return std::nullopt;
  if (owners.told.size() > kMaxTold) owners.told.resize(kMaxTold);
  return owners;
}

std::string name_of(const json& object) {
  return base::text_at(base::object_at(object, "metadata"), "name");
}

net::ClientOptions client_options(const RouterOptions& options) {
  net::ClientOptions client;
  client.total_timeout = KubeApi::kExchange;
  client.max_body_bytes = kMaxAnswerBytes;
  client.keep_alive = true;
  client.tls.ca = options.gateway_ca_file;
  client.tls.ca_advice = "the setting gateway.ca_file names its CA";
  return client;
}

std::string routes_path(const net::Url& api, const std::string& space) {
  return net::join_target(api.target,
                          fmt::format("apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes", space));
}

}  // namespace

KubeApi::KubeApi(net::Url api, const RouterOptions& options)
    : token_file_(options.gateway_token_file),
      installation_(options.gateway_name),
      routes_(routes_path(api, options.gateway_namespace)),
      client_(std::move(api), client_options(options)) {}

schema::Result<KubeApi> KubeApi::open(const RouterOptions& options) {
  auto api = net::parse_url(options.gateway_api);
  if (!api) return schema::wrap(api.error(), "setting 'gateway.api' must be the URL of the Kubernetes API");
  if (!api->tls && !is_loopback(api->host))
    return schema::failf(ErrorCode::invalid_argument,
                         "setting 'gateway.api' has '{}': it must be https, except on loopback",
                         options.gateway_api);
  return KubeApi(std::move(*api), options);
}

/// The token is read for each exchange, since the kubelet replaces it about every hour.
schema::Result<net::ClientResponse> KubeApi::ask(std::string method, std::string_view below, std::string type,
                                                 std::string body) {
  const auto token = TRY(read_token(token_file_));
  net::ClientRequest request;
  request.method = std::move(method);
  request.target = fmt::format("{}{}", routes_, below);
  request.headers = {{"Accept", "application/json"}, {"Authorization", "Bearer " + token}};
  if (!type.empty()) request.headers.push_back({"Content-Type", std::move(type)});
  request.body = std::move(body);
  auto response = client_.send(request);
  if (response) return response;
  return schema::wrap(response.error(), "the Kubernetes API does not answer");
}

schema::Result<KubeApi::Objects> KubeApi::list() {
  const auto selector = net::percent_encode(fmt::format("{}={}", kInstallationLabel, installation_));
  const auto response = TRY(ask("GET", "?labelSelector=" + selector, "", ""));
  auto answer = TRY(object_in(response, "the list of HTTPRoutes"));
  const auto items = answer.find("items");
  if (items == answer.end() || !items->is_array())
    return schema::fail(ErrorCode::invalid_document, "the Kubernetes API's list of HTTPRoutes has no items");
  Objects objects;
  for (auto& item : *items) {
    auto name = name_of(item);
    objects.insert_or_assign(std::move(name), std::move(item));
  }
  return objects;
}

schema::Result<json> KubeApi::create(const json& object) {
  const auto response =
      TRY(ask("POST", fmt::format("?fieldManager={}", kCreator), "application/json", dumped(object)));
  if (response.status == kConflict)
    return schema::failf(
        ErrorCode::already_exists,
        "HTTPRoute {} is there already and did not bear the label {}={}, so that driftgate leaves "
        "it alone: remove it, or choose another gateway.name",
        name_of(object), kInstallationLabel, installation_);
  return object_in(response, fmt::format("the making of HTTPRoute {}", name_of(object)));
}

/// `ours` says, of a conflict, that all fields belong to the maker of HTTPRoutes.
schema::Result<json> KubeApi::patch(const json& object, bool force, bool& ours) {
  const auto name = name_of(object);
  const auto below = fmt::format("/{}?fieldManager={}{}", name, kApplier, force ? "&force=true" : "");
  const auto response = TRY(ask("PATCH", below, kApplyType, dumped(object)));
  if (response.status != kConflict)
    return object_in(response, fmt::format("the apply of HTTPRoute {}", name));
  const auto owners = owners_in(status_in(response));
  if (!owners)
    return schema::failf(ErrorCode::unavailable,
                         "HTTPRoute {} was changed while it was written; it is read again", name);
  ours = owners->all_ours;
  return schema::failf(
      ErrorCode::conflict,
      "HTTPRoute {} is not written, since fields of it belong to somebody else: {}. Let whoever it is "
      "give them up, or delete the HTTPRoute, which is then made anew",
      name, owners->told);
}

schema::Result<json> KubeApi::apply(json object, const std::string& version) {
  object["metadata"]["resourceVersion"] = version;
  bool ours = false;
  auto applied = patch(object, false, ours);
  if (applied || !ours) return applied;
  return patch(object, true, ours);
}

}  // namespace driftgate::route::gateway
