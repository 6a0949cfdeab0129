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
  explicit Watcher(bool as_json) : as_json_(as_json) {}

  bool take(const net::SseEvent& event) {
    const json data = json::parse(event.data, nullptr, false);
    if (data.is_discarded()) return true;
    if (event.name == "end" || event.name == "progress") last_ = data;
    if (as_json_) {
      print_line(json{
          {"id", event.id.empty() ? json(nullptr) : json(event.id)}, {"event", event.name}, {"data", data}}
                     .dump());
      return !waits_for_people();
    }
    if (event.name == "end") return true;
    const std::string line = event.name == "progress" ? "  … " + progress_line(data) : entry_line(data);
    if (line != last_line_) print_line(line);
    last_line_ = line;
    return !waits_for_people();
  }

  /// Inconclusive is not the end, but nothing happens until a person decides: the command ends there.
  [[nodiscard]] bool waits_for_people() const { return text_of(last_, "state") == "inconclusive"; }
  [[nodiscard]] const json& promotion() const { return last_; }

 private:
  const bool as_json_;
  std::string last_line_;
  json last_ = json::object();
};

}  // namespace

int watch(const ConnectionArgs& connection, const std::string& subject) {
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    const std::string id = TRY(find_promotion(client, subject));
    if (!connection.json && !connection.plain && live::can_draw()) return live::watch_live(client, id);
    Watcher watcher(connection.json);
    TRY(client.follow(promotion_path(id) + "/events",
                      [&watcher](const net::SseEvent& event) { return watcher.take(event); }));
    if (!connection.json) print(promotion_text(watcher.promotion()));
    return exit_code_of_state(text_of(watcher.promotion(), "state"));
  });
}

}  // namespace driftgate::cli
