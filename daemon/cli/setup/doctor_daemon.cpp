#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "daemon/base/clock.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/setup/doctor_checks.hpp"
#include "daemon/evidence/keys/signed_note.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::Result;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerTime{3'000};
constexpr std::int64_t kClockApart_s = 3;  ///< a Date header has whole seconds
constexpr std::size_t kMostNamed = 20;     ///< models of an engine in a message
constexpr int kPublishLooks = 20;
constexpr milliseconds kPublishPause{100};
constexpr std::size_t kLongestReason = 400;  ///< bytes
/// Of a text in HTML, in the order in which they are undone.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kEscapes{
    {{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}}};

/// All items of a collection, at most 10,000.
Result<std::vector<json>> items_of(Client& client, const std::string& collection, bool pages = true) {
  std::vector<json> items;
  std::string after;
  for (int page = 0; page < 20; ++page) {
    std::string target = "/v1/" + collection + (pages ? "?limit=500" : "");
    if (!after.empty()) target += "&after=" + net::percent_encode(after);
    const auto answer = TRY(parse_answer(client.get(target)));
    for (const auto& item : member_of(answer, "items")) items.push_back(item);
    after = text_of(answer, "next");
    if (!pages || after.empty()) break;
  }
  return items;
}

/// Reports a clock that is apart from this machine's, by what the answer to a request says.
void compare_clocks(const net::ClientResponse& answer, std::int64_t asked_us, const std::string& whose,
                    Findings& into) {
  const auto header = answer.header("Date");
  const auto date = header ? date_from_header(*header) : std::nullopt;
  if (!date) return into.skipped("clock of " + whose, "its answers have no Date");
  const std::int64_t from = asked_us / 1'000'000, to = base::wall_clock_us() / 1'000'000;
  const std::int64_t apart = *date < from ? *date - from : *date > to ? *date - to : 0;
  if (std::abs(apart) < kClockApart_s) return;
  into.warning(
      "clock of " + whose,
      fmt::format("it is {} s {} of this machine's", std::abs(apart), apart > 0 ? "ahead" : "behind"),
      "let every machine keep its clock by NTP (timedatectl status)");
}

void check_ready(Client& client, Findings& into) {
  const auto answer = parse_answer(client.get("/readyz"));
  into.checked("readiness");
  if (!answer) {
    // 503 has no problem document: it is the list of checks.
    return into.error("/readyz", answer.error().message, "see the daemon's log");
  }
  for (const auto& check : member_of(*answer, "checks"))
    if (!is_true(check, "ok"))
      into.error("/readyz: " + text_of(check, "name"), text_of(check, "detail"), "see the daemon's log");
}

/// What stands between two marks; nothing where they do not both occur.
std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view behind) {
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + before.size());
  const std::size_t end = text.find(behind);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(0, end));
}

/// Says that the daemon has no page, and why, as what stands in for the page does. That is no finding: the
/// rest works, and it may be meant.
void check_page(const net::Url& daemon, const net::TlsClientFiles& tls, Findings& into) {
  const auto answer = net::HttpClient(daemon, {.total_timeout = kAnswerTime, .tls = tls})
                          .send({.target = net::join_target(daemon.target, "/")});
  if (!answer) return into.skipped("page", answer.error().message);
  if (answer->status != 200) return into.skipped("page", fmt::format("GET / answers {}", answer->status));
  auto reason = between(answer->body, "<p id=\"reason\">", "</p>");
  if (!reason) return into.checked("page");
  for (const auto& [escaped, plain] : kEscapes)
    for (std::size_t at = 0; (at = reason->find(escaped, at)) != std::string::npos; at += plain.size())
      reason->replace(at, escaped.size(), plain);
  into.skipped("page", "the daemon was built without it: " + reason->substr(0, kLongestReason));
}

/// The models that an engine names; nothing for a list that is none.
std::optional<std::set<std::string>> names_of(const std::string& body) {
  const auto document = json::parse(body, nullptr, false);
  const auto data = member_of(document, "data");
  if (!data.is_array()) return std::nullopt;
  std::set<std::string> names;
  for (const auto& model : data)
    if (const auto name = text_of(model, "id"); !name.empty() && names.size() < kMostNamed)
      names.insert(name);
  return names;
}

struct EngineCheck {
  const std::map<std::string, std::set<std::string>>&
      served;               ///< names of models by the engine that serves them
  std::string daemon_host;  ///< empty: the daemon is on this machine
};

void check_engine(const json& engine, const EngineCheck& known, Findings& into) {
  const std::string name = text_of(engine, "name"), where = "engine " + name;
  const auto url = net::parse_url(text_of(engine, "url"));
  if (!url) return into.error(where, url.error().message, "register it again with a URL");
  const bool local = url->host == "127.0.0.1" || url->host == "::1" || url->host == "localhost";
  if (local && !known.daemon_host.empty())
    return into.skipped(where, "its address is one of the daemon's machine; run doctor there");
  if (url->tls && !text_of(engine, "ca_file").empty())
    return into.skipped(where, "its CA file is on the daemon's machine");
  const auto asked_us = base::wall_clock_us();
  net::HttpClient client(*url, {.connect_timeout = kAnswerTime, .total_timeout = kAnswerTime});
  const auto answer = client.send({.target = net::join_target(url->target, "/v1/models")});
  if (!answer)
    return into.error(where, fmt::format("does not answer at {}: {}", url->base(), answer.error().message),
                      "start it, or register it under its new address");
  compare_clocks(*answer, asked_us, where, into);
  if (answer->status == 401 || answer->status == 403) {
    if (text_of(engine, "key_file").empty())
      into.error(where, "asks for a key, and none is registered",
                 "put its key below engines.files_dir and register it with --engine-key-file");
    return;
  }
  if (answer->status >= 400)
    return into.error(where, fmt::format("answers {} to GET /v1/models", answer->status),
                      "give the base URL of an OpenAI-compatible server");
  const auto names = names_of(answer->body);
  const auto served = known.served.find(name);
  if (!names || names->empty() || served == known.served.end()) return;
  for (const auto& model : served->second)
    if (!names->contains(model))
      into.error(where,
                 fmt::format("serves the model '{}', but answers as {}", model, fmt::join(*names, ", ")),
                 fmt::format("start the engine with the model name '{}'", model));
}

void check_engines(Client& client, const std::string& daemon_host, Findings& into) {
  const auto engines = items_of(client, "engines"), models = items_of(client, "models");
  if (!engines || !models)
    return into.skipped("engines", engines ? models.error().message : engines.error().message);
  std::map<std::string, std::set<std::string>> served;
  for (const auto& model : *models) {
    const auto engine = text_of(member_of(model, "incumbent"), "engine");
    if (!engine.empty()) served[engine].insert(text_of(model, "name"));
  }
  const EngineCheck known{served, daemon_host};
  for (const auto& engine : *engines) check_engine(engine, known, into);
  into.checked(fmt::format("{} engines", engines->size()));
}

void check_webhooks(Client& client, Findings& into) {
  const auto webhooks = items_of(client, "webhooks", false);
  if (!webhooks) return into.skipped("webhooks", webhooks.error().message);
  for (const auto& webhook : *webhooks) {
    const std::string name = text_of(webhook, "name"), where = "webhook " + name;
    const auto disabled = member_of(webhook, "disabled");
    if (disabled.is_object())
      into.error(where, "is disabled: " + text_of(disabled, "reason"),
                 "once its receiver is right again: driftgate webhook enable " + name);
    else if (const auto why = text_of(webhook, "last_error");
             !why.empty() && number_of(webhook, "pending", 0) > 0)
      into.warning(where, fmt::format("{} messages wait: {}", text_of(webhook, "pending"), why),
                   "driftgate webhook test " + name);
  }
  into.checked(fmt::format("{} webhooks", webhooks->size()));
}

/// Whether the newest of a name's tokens that may set schedules was revoked.
bool lost_rights(const std::vector<json>& tokens, const std::string& owner) {
  const json* newest = nullptr;
  for (const auto& token : tokens) {
    if (text_of(token, "name") != owner) continue;
    const auto scopes = member_of(token, "scopes");
    const bool may = std::ranges::any_of(
        scopes, [](const json& scope) { return scope == "promoter" || scope == "admin"; });
    if (may && (newest == nullptr || number_of(token, "created_us", 0) > number_of(*newest, "created_us", 0)))
      newest = &token;
  }
  return newest != nullptr && !text_of(*newest, "revoked_us").empty();
}

void check_schedules(Client& client, Findings& into) {
  const auto schedules = items_of(client, "schedules");
  if (!schedules) return into.skipped("schedules", schedules.error().message);
  const auto tokens = items_of(client, "tokens");  // an admin's
  for (const auto& schedule : *schedules) {
    if (is_true(schedule, "paused")) continue;
    const std::string name = text_of(schedule, "name"), owner = text_of(schedule, "owner");
    const auto fires = member_of(schedule, "fires");
    const bool skipped =
        fires.is_array() && !fires.empty() && text_of(fires.front(), "why") == "owner_revoked";
    if (skipped || (tokens && lost_rights(*tokens, owner)))
      into.error(
          "schedule " + name,
          fmt::format("starts nothing: the token of {}, who set it last, is revoked", owner),
          fmt::format("somebody with the scope promoter sets it again: driftgate schedule change {}", name));
  }
  into.checked(fmt::format("{} schedules", schedules->size()));
}

/// Publication follows a commit within moments; one that lags longer has failed.
void check_published(Client& client, const Deployment& deployment, Findings& into) {
  const std::string where = "evidence.head_file: " + deployment.head_file.string();
  const auto note = client.get("/v1/log/checkpoint");
  if (!note) return into.skipped("published head", note.error().message);
  const auto head = evidence::read_checkpoint(*note);
  const auto key = evidence::SigningKey::load(deployment.head_key.string());
  if (!head || (key && !evidence::open_checkpoint(*note, head->checkpoint.origin, key->public_key())))
    return into.error(
        "daemon", "what answers does not sign its head by " + deployment.head_key.string(),
        "another program, or another daemon, answers at this URL: see 'listen' in the settings, "
        "and --url");
  for (int look = 0; look < kPublishLooks; ++look) {
    const auto text = read_file(deployment.head_file.string(), evidence::kMaxNoteBytes);
    if (!text) return into.skipped("published head", text.error().message);
    const auto published = evidence::read_checkpoint(*text);
    if (published && published->checkpoint.size >= head->checkpoint.size)
      return into.checked("published head");
    std::this_thread::sleep_for(kPublishPause);
  }
  into.error(where, fmt::format("does not cover the {} entries of the log", head->checkpoint.size),
             "see the daemon's log: its folder may be full or not writable");
}

}  // namespace

std::optional<std::int64_t> date_from_header(std::string_view text) {
  std::tm parts{};
  const std::string copy(text.substr(0, 64));
  const char* const end = ::strptime(copy.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

void check_daemon(Client& client, const std::string& url, const net::TlsClientFiles& tls,
                  const Deployment* deployment, Findings& into) {
  client.allow(kAnswerTime * 3);
  check_ready(client, into);
  std::string host;
  if (const auto parsed = net::parse_url(url); parsed) {
    const bool local = parsed->host == "127.0.0.1" || parsed->host == "::1" || parsed->host == "localhost";
    if (!local && deployment == nullptr) host = parsed->host;
    const auto asked_us = base::wall_clock_us();
    const auto answer = net::HttpClient(*parsed, {.total_timeout = kAnswerTime, .tls = tls})
                            .send({.target = net::join_target(parsed->target, "/healthz")});
    if (answer) compare_clocks(*answer, asked_us, "the daemon", into);
    into.checked("clocks");
    check_page(*parsed, tls, into);
  }
  check_engines(client, host, into);
  check_schedules(client, into);
  check_webhooks(client, into);
  if (deployment != nullptr) check_published(client, *deployment, into);
}

}  // namespace driftgate::cli
