#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/live_watch.hpp"
#include "daemon/cli/live/terminal.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

/// Prints a promotion's events: evidence entries always, progress when its line changed.
class Watcher {
 public:
  Watcher(bool as_json, std::string until) : as_json_(as_json), until_(std::move(until)) {}

  bool take(const net::SseEvent& event) {
    const json data = json::parse(event.data, nullptr, false);
    if (data.is_discarded()) return true;
    if (event.name == "end" || event.name == "progress") last_ = data;
    if (as_json_) {
      print_line(json{
          {"id", event.id.empty() ? json(nullptr) : json(event.id)}, {"event", event.name}, {"data", data}}
                     .dump());
      return !is_over();
    }
    if (event.name == "end") return true;
    const std::string line = event.name == "progress" ? "  … " + progress_line(data) : entry_line(data);
    if (line != last_line_) print_line(line);
    last_line_ = line;
    return !is_over();
  }

  /// Inconclusive is not the end, but nothing happens until a person decides: the command ends there.
  [[nodiscard]] bool is_over() const {
    return text_of(last_, "state") == "inconclusive" || is_reached(last_, until_);
  }
  [[nodiscard]] const json& promotion() const { return last_; }

 private:
  const bool as_json_;
  const std::string until_;
  std::string last_line_;
  json last_ = json::object();
};

}  // namespace

int watch(const ConnectionArgs& connection, const std::string& subject) {
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    const std::string id = TRY(find_promotion(client, subject));
    if (!connection.json && !connection.plain && live::can_draw())
      return live::watch_live(client, id, connection.until);
    Watcher watcher(connection.json, connection.until);
    TRY(client.follow(promotion_path(id) + "/events",
                      [&watcher](const net::SseEvent& event) { return watcher.take(event); }));
    if (!connection.json) print(promotion_text(watcher.promotion()));
    if (is_reached(watcher.promotion(), connection.until)) return kExitOk;
    return exit_code_of_state(text_of(watcher.promotion(), "state"));
  });
}

}  // namespace driftgate::cli
