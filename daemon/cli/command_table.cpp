#include "daemon/cli/command_table.hpp"

#include <nlohmann/json.hpp>

namespace driftgate::cli {
namespace {

using nlohmann::json;

json option_json(const CLI::Option& option) {
  json row;
  row["names"] = json::array();
  for (const auto& name : option.get_snames()) row["names"].push_back("-" + name);
  for (const auto& name : option.get_lnames()) row["names"].push_back("--" + name);
  row["positional"] = option.get_positional();
  if (row["names"].empty()) row["names"].push_back(option.get_name(true));
  row["value"] = option.get_type_name();
  row["flag"] = option.get_items_expected_max() == 0;
  row["required"] = option.get_required();
  row["many"] = option.get_expected_max() > 1;
  row["text"] = option.get_description();
  return row;
}

json command_json(const CLI::App& app) {
  json row;
  row["name"] = app.get_name();
  row["text"] = app.get_description();
  row["options"] = json::array();
  for (const auto* const option : app.get_options()) row["options"].push_back(option_json(*option));
  row["commands"] = json::array();
  for (const auto* const sub : app.get_subcommands([](const CLI::App*) { return true; }))
    row["commands"].push_back(command_json(*sub));
  return row;
}

void add_text(CLI::App& app, const char* name, const std::string& text) {
  app.add_option(name, text)->type_name("TEXT");
}

void add_folder_options(CLI::App& app) {
  add_text(app, "--config", "The daemon's settings file; the defaults if not given");
  add_text(app, "--data-dir", "Data folder, instead of the configured one");
}

}  // namespace

std::string command_table(const CLI::App& app) {
  auto table = command_json(app);
  table["exit_codes"] = app.get_footer();
  return table.dump(1);
}

void describe_direct_commands(CLI::App& app) {
  CLI::App* stop = app.add_subcommand("router-stop",
                                      "Stop a router: it answers what it has, and users are served no more");
  add_text(*stop, "--socket", "Its control socket, router.sock in the data folder");
  CLI::App* drain = app.add_subcommand("drain", "Wait until no router has a request at an engine");
  add_text(*drain, "engine", "URL of the engine");
  add_folder_options(*drain);
  add_text(*drain, "--socket", "Control socket of the routers, instead of the configured one");
  add_text(*drain, "--timeout", "Seconds to wait");
  CLI::App* haproxy = app.add_subcommand("haproxy", "HAProxy as the data plane");
  add_folder_options(*haproxy->add_subcommand("config", "Write the files that HAProxy starts with"));
}

}  // namespace driftgate::cli
