#include "daemon/cli/setup/apply_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "daemon/cli/json_text.hpp"
#include "daemon/cli/setup/differences.hpp"
#include "daemon/net/url.hpp"
#include "schema/json.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::Result;

std::string collection_of(SetupKind kind) {
  switch (kind) {
    case SetupKind::kernel:
      return "/v1/kernels";
    case SetupKind::contract:
      return "/v1/contracts";
    case SetupKind::engine:
      return "/v1/engines";
    case SetupKind::schedule:
      return "/v1/schedules";
    case SetupKind::model:
    case SetupKind::recipe:
      break;
  }
  return "/v1/models";
}

std::string path_of_item(SetupKind kind, const std::string& name) {
  const auto path = collection_of(kind) + "/" + net::percent_encode(name);
  return kind == SetupKind::recipe ? path + "/recipe" : path;
}

/// What the daemon has, or null.
Result<json> read_stored(Client& client, SetupKind kind, const std::string& name) {
  const auto answer = client.get(path_of_item(kind, name));
  if (!answer && answer.error().code == ErrorCode::not_found) return json();
  return parse_answer(answer);
}

/// An engine as the file would have to say it to be what is stored.
json engine_as_stored(const json& stored, const json& wanted) {
  json engine{{"name", text_of(stored, "name")},
              {"url", text_of(stored, "url")},
              {"kernel", text_of(stored, "kernel")}};
  engine["checkpoint"] = json::object();
  const auto uri = text_of(stored, "checkpoint_uri");
  if (!uri.empty()) engine["checkpoint"]["uri"] = uri;
  const json checkpoint = member_of(wanted, "checkpoint");
  if (checkpoint.contains("digest") || uri.empty())
    engine["checkpoint"]["digest"] = text_of(stored, "checkpoint");
  for (const char* member : {"max_requests_per_second", "key_header", "key_file", "ca_file"})
    if (base::member(stored, member) != nullptr) engine[member] = stored[member];
  // Files are shown with the folder that they lie in.
  const std::filesystem::path folder = text_of(stored, "files_dir");
  for (const char* member : {"key_file", "ca_file"}) {
    const auto path = text_of(engine, member), asked = text_of(wanted, member);
    const bool same = !path.empty() && !asked.empty() &&
                      (folder / asked).lexically_normal() == std::filesystem::path(path).lexically_normal();
    if (same) engine[member] = asked;
  }
  return engine;
}

/// The members of an engine that are kept by its URL, so that engines of one URL share them.
constexpr std::array<const char*, 3> kAccess{"key_file", "key_header", "ca_file"};

json access_of(const json& engine) {
  json access = json::object();
  for (const char* member : kAccess)
    if (const auto text = text_of(engine, member); !text.empty()) access[member] = text;
  return access;
}

json engine_as_registered(json wanted) {
  const auto url = net::engine_base_url(text_of(wanted, "url"));
  if (url) wanted["url"] = *url;
  return wanted;
}

std::string collapsed(const std::string& cron) {
  std::string out;
  for (const char c : cron) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank) out += c;
    if (blank && !out.empty() && out.back() != ' ') out += ' ';
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

class Planner {
 public:
  Planner(Client& client, std::string file, const std::vector<SetupItem>& items)
      : client_(client), file_(std::move(file)) {
    for (const auto& item : items) {
      in_file_.emplace(item.kind, item.name);
      if (item.kind == SetupKind::contract) in_file_.emplace(item.kind, item.digest);
    }
  }

  Result<SetupStep> plan(SetupItem item) {
    for (const auto& need : item.needs) TRY(check_need(need));
    const auto stored = TRY(read_stored(client_, item.kind, item.name));
    SetupStep step{.item = std::move(item)};
    if (stored.is_null()) {
      step.action = SetupAction::created;
    } else {
      TRY(compare(step, stored));
      if (!step.differences.empty()) step.action = SetupAction::changed;
    }
    if (step.item.kind == SetupKind::engine) TRY(look_at_sharers(step));
    return step;
  }

  Result<void> result() const {
    if (faults_.empty()) return {};
    return schema::fail(ErrorCode::conflict, fmt::format("{}", fmt::join(faults_, "\n")));
  }

 private:
  void fault(const schema::SourcePosition& at, const std::string& what) {
    faults_.push_back(fmt::format("{}:{}:{}: {}", file_, at.line, at.column, what));
  }

  Result<void> check_need(const SetupReference& need) {
    const auto key = std::pair(need.kind, need.name);
    if (need.name.empty() || in_file_.contains(key)) return {};
    auto known = known_.find(key);
    if (known == known_.end()) {
      const auto stored = TRY(read_stored(client_, need.kind, need.name));
      known = known_.emplace(key, !stored.is_null()).first;
    }
    if (!known->second)
      fault(need.at, fmt::format("there is no {} {}, neither in this file nor registered",
                                 to_string(need.kind), need.name));
    return {};
  }

  Result<void> compare(SetupStep& step, const json& stored) {
    const auto& wanted = step.item.body;
    switch (step.item.kind) {
      case SetupKind::kernel:
        step.differences = differences_of(member_of(stored, "document"), wanted);
        if (!step.differences.empty())
          fault(step.item.at,
                fmt::format("kernel {} is registered with other contents, and a kernel cannot be "
                            "changed: give this one another name ({})",
                            step.item.name, fmt::join(step.differences, "; ")));
        return {};
      case SetupKind::contract:
        return compare_contract(step, stored);
      case SetupKind::engine:
        step.differences = differences_of(engine_as_stored(stored, wanted), engine_as_registered(wanted));
        return {};
      case SetupKind::model:
        note_model(step, stored);
        return {};
      case SetupKind::recipe:
        step.differences = differences_of(member_of(stored, "recipe"), wanted);
        step.revision = base::integer_at(stored, "revision");
        return {};
      case SetupKind::schedule:
        compare_schedule(step, stored);
        return {};
    }
    return {};
  }

  /// Engines of one URL have one key and one CA file: those of the newest registration. In a file they have
  /// to agree; one that is registered and not in the file goes along, which the step says.
  Result<void> look_at_sharers(SetupStep& step) {
    const json wanted = engine_as_registered(step.item.body);
    const auto url = text_of(wanted, "url");
    const auto [same, is_first] = by_url_.try_emplace(url, step.item.name, access_of(wanted));
    if (!is_first && same->second.second != access_of(wanted))
      fault(step.item.at,
            fmt::format("engines {} and {} share {}, and with it one key and one CA file: say the same "
                        "key_file, key_header and ca_file of both",
                        same->second.first, step.item.name, url));
    if (step.action == SetupAction::unchanged) return {};
    TRY(read_engines());
    for (const auto& other : *engines_) {
      const auto name = text_of(other, "name");
      if (text_of(other, "url") != url || in_file_.contains(std::pair(SetupKind::engine, name))) continue;
      if (access_of(engine_as_stored(other, wanted)) != access_of(wanted))
        step.note = fmt::format("engine {}, which shares {}, gets this key and CA file too", name, url);
    }
    return {};
  }

  Result<void> read_engines() {
    if (engines_) return {};
    engines_.emplace();
    std::string next;
    do {
      const auto answer =
          client_.get("/v1/engines?limit=500" + (next.empty() ? "" : "&after=" + net::percent_encode(next)));
      if (!answer && answer.error().code == ErrorCode::not_found) return {};  // of a daemon without this list
      const auto page = TRY(parse_answer(answer));
      for (const json& engine : member_of(page, "items")) engines_->push_back(engine);
      const auto before = std::exchange(next, text_of(page, "next"));
      if (next == before) break;
    } while (!next.empty());
    return {};
  }

  /// The newest registration of a name is what the name stands for; an older one cannot become it again.
  Result<void> compare_contract(SetupStep& step, const json& stored) {
    if (text_of(stored, "digest") == step.item.digest) return {};
    step.differences = differences_of(member_of(stored, "document"), step.item.body);
    const auto older = TRY(read_stored(client_, SetupKind::contract, step.item.digest));
    if (!older.is_null())
      fault(step.item.at,
            fmt::format(
                "contract {} was registered before as {}, and its name stands for a newer one ({}) now: "
                "name it by its digest where it is used, or change something in it",
                step.item.name, step.item.digest, text_of(stored, "digest")));
    return {};
  }

  static void note_model(SetupStep& step, const json& stored) {
    const auto engine = text_of(member_of(stored, "incumbent"), "engine");
    if (engine != text_of(step.item.body, "engine"))
      step.note = fmt::format("it is served by engine {} now; only a promotion changes that", engine);
  }

  static void compare_schedule(SetupStep& step, const json& stored) {
    json before = json::object(), after = step.item.body;
    after["cron"] = collapsed(text_of(after, "cron"));
    for (const auto& [member, value] : after.items()) before[member] = member_of(stored, member);
    step.differences = differences_of(before, after);
    step.revision = base::integer_at(stored, "revision");
    if (is_true(stored, "paused")) step.note = "it is paused, and stays so";
  }

  Client& client_;
  std::string file_;
  std::set<std::pair<SetupKind, std::string>> in_file_;
  std::map<std::pair<SetupKind, std::string>, bool> known_;
  std::map<std::string, std::pair<std::string, json>>
      by_url_;                                ///< of the file: the first engine, and its access
  std::optional<std::vector<json>> engines_;  ///< that are registered, once they were read
  std::vector<std::string> faults_;
};

/// Asks who the token is only where something is to be done.
Result<void> check_scopes(Client& client, const std::vector<SetupStep>& steps) {
  std::map<std::string, std::vector<std::string>> needed;
  for (const auto& step : steps) {
    if (step.action == SetupAction::unchanged) continue;
    needed[step.item.kind == SetupKind::model ? "operator" : "promoter"].push_back(
        fmt::format("{} {}", to_string(step.item.kind), step.item.name));
  }
  if (needed.empty()) return {};
  const auto me = TRY(parse_answer(client.get("/v1/whoami")));
  std::set<std::string> scopes;
  for (const json& scope : member_of(me, "scopes")) scopes.insert(plain_text(scope));
  std::string lacking;
  for (const auto& [scope, items] : needed) {
    if (scopes.contains(scope) || scopes.contains("admin")) continue;
    lacking += fmt::format("{}the scope {} is needed for {}", lacking.empty() ? "" : "; ", scope,
                           fmt::join(items, ", "));
  }
  if (lacking.empty()) return {};
  return schema::fail(ErrorCode::forbidden,
                      fmt::format("the token of {} has the scopes {}: {}; nothing was changed",
                                  text_of(me, "name"), fmt::join(scopes, ", "), lacking));
}

Result<std::string> send_step(Client& client, const SetupStep& step) {
  const auto& item = step.item;
  const auto text = schema::canonical_json(item.body);
  if (item.kind == SetupKind::recipe)
    return client.change("PUT", path_of_item(item.kind, item.name), step.revision, text);
  if (item.kind == SetupKind::schedule && step.action == SetupAction::changed)
    return client.change("PUT", path_of_item(item.kind, item.name), step.revision, text);
  return client.post(collection_of(item.kind), text, fresh_idempotency_key());
}

}  // namespace

Result<std::vector<SetupStep>> plan_setup(Client& client, const std::string& file,
                                          std::vector<SetupItem> items) {
  Planner planner(client, file, items);
  std::vector<SetupStep> steps;
  for (auto& item : items) {
    auto step = TRY(planner.plan(std::move(item)));
    steps.push_back(std::move(step));
  }
  TRY(planner.result());
  TRY(check_scopes(client, steps));
  return steps;
}

Result<std::vector<std::string>> carry_out(Client& client, const SetupStep& step) {
  const auto answer = TRY(parse_answer(send_step(client, step)));
  std::vector<std::string> warnings;
  for (const json& warning : member_of(answer, "warnings")) warnings.push_back(plain_text(warning));
  const json abilities = member_of(answer, "abilities");
  for (const json& note : member_of(abilities, "notes"))
    warnings.push_back(
        fmt::format("engine {}: {}; what an engine cannot do matters only to clauses that need "
                    "it, which 'driftgate promote --dry-run' names",
                    step.item.name, plain_text(note)));
  return warnings;
}

}  // namespace driftgate::cli
