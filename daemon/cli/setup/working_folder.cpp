#include "daemon/cli/setup/working_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kExampleEngines[] = {"f32", "bf16"};

/// The folders that captures and checkpoints are read from: none lies within another.
std::vector<fs::path> roots_of(const FolderPlan& plan) {
  std::vector<fs::path> wanted;
  if (plan.example) wanted.push_back(plan.example->folder);
  if (plan.captures)
    for (const auto& file : {plan.captures->train, plan.captures->inf, plan.captures->corpus})
      if (!file.empty()) wanted.push_back(file.parent_path());
  std::ranges::sort(wanted);
  std::vector<fs::path> roots;
  for (const auto& folder : wanted) {
    const bool covered = std::ranges::any_of(
        roots, [&](const fs::path& root) { return std::ranges::mismatch(root, folder).in1 == root.end(); });
    if (!covered) roots.push_back(folder);
  }
  return roots;
}

std::string adapter_line(const ExampleFiles& example, const std::string& name, const std::string& options) {
  return fmt::format(
      "  {}: [{}, capture, --model, \"{{checkpoint}}\", --kernel, bf16, {}--corpus, \"{{corpus}}\", --like, "
      "\"{{train}}\", --out, \"{{out}}\"]\n",
      name, yaml_string(example.program.string()), options);
}

std::string settings_text(const FolderPlan& plan) {
  std::string text = fmt::format(
      "# Settings of the daemon of this folder. 'driftgate settings' prints every other one with its "
      "default.\n"
      "listen: 127.0.0.1:{}           # API and page\n"
      "data_dir: {}\n"
      "router:\n"
      "  listen: 127.0.0.1:{}         # users' traffic\n",
      plan.api_port, yaml_string((plan.folder / "data").string()), plan.router_port);
  if (plan.example)
    text += "  window_ms: 500               # the default is 5 s; shorter windows make the example faster\n";
  const auto roots = roots_of(plan);
  text += "roots:                         # only below these are captures, corpora and checkpoints read\n";
  for (const auto& root : roots) text += fmt::format("  - {}\n", yaml_string(root.string()));
  if (roots.empty()) text += "#  - /srv/models\n";
  text += "adapters:                      # programs that capture a candidate's log-probabilities\n";
  if (plan.example) {
    text += adapter_line(*plan.example, "tinylm-bf16", "");
    text += adapter_line(*plan.example, "tinylm-bf16-batch8", "--batch, \"8\", ");
  } else {
    text +=
        "#  my-kernel: [/usr/local/bin/capture, --checkpoint, \"{checkpoint}\", --corpus, \"{corpus}\", "
        "--out, "
        "\"{out}\"]\n"
        "engines:\n"
        "  allowed_hosts: [127.0.0.1, \"::1\", localhost]   # add the hosts that your engines run on\n";
  }
  return text;
}

std::string env_text(const FolderPlan& plan) {
  const std::string folder = plan.folder.string();
  std::string text = fmt::format(
      "# Where the commands of driftgate find the daemon of this folder, and as whom they speak:\n"
      "#   . {0}/env.sh\n"
      "# This token may register, promote and operate, not approve; others are in {0}/tokens.\n"
      "export DRIFTGATE_URL=http://127.0.0.1:{1}\n"
      "DRIFTGATE_TOKEN=$(cat {2})\n"
      "export DRIFTGATE_TOKEN\n",
      folder, plan.api_port, shell_word(folder + "/tokens/engineer.token"));
  if (plan.example)
    text += fmt::format("export EXAMPLE={}\nexport PATH=\"$PATH:\"{}\n",
                        shell_word(plan.example->folder.string()),
                        shell_word(plan.example->program.parent_path().string()));
  return text;
}

std::string traffic_text(const FolderPlan& plan) {
  return fmt::format(
      "#!/bin/sh\n"
      "# Users of the model: 100 requests a second for 15 minutes, each with its own key. Ctrl-C or kill "
      "ends them.\n"
      "exec {} load --url http://127.0.0.1:{} --prompts {} --rate 100 --seconds 900 --max-tokens 8 "
      "--key-prefix \"$$\" "
      "--json {}\n",
      shell_word(plan.example->program.string()), plan.router_port,
      shell_word((plan.example->folder / "data" / "prompts.jsonl").string()),
      shell_word((plan.folder / "traffic.json").string()));
}

json example_engine(const FolderPlan& plan, std::size_t index) {
  const auto& example = *plan.example;
  const std::string port = std::to_string(plan.engine_ports.at(index));
  return {{"name", kExampleEngines[index]},
          {"url", "http://127.0.0.1:" + port},
          {"command",
           {example.program.string(), "serve", "--model", (example.folder / "model").string(), "--kernel",
            kExampleEngines[index], "--port", port}}};
}

std::string dev_text(const FolderPlan& plan) {
  json engines = json::array();
  if (plan.example)
    for (std::size_t i = 0; i < plan.engine_ports.size(); ++i) engines.push_back(example_engine(plan, i));
  return json{{"engines", std::move(engines)}}.dump(2) + "\n";
}

std::string next_commands(const FolderPlan& plan) {
  const std::string folder = shell_word(plan.folder.string());
  std::string text = fmt::format(
      "    driftgate dev {0}                      # daemon, router and page; Ctrl-C ends them\n"
      "    . {0}/env.sh                           # in another terminal: the daemon's URL and a token\n"
      "    driftgate apply -f {0}/apply.yaml --dry-run\n"
      "    driftgate apply -f {0}/apply.yaml\n",
      folder);
  if (plan.example)
    text += fmt::format(
        "    {0}/traffic.sh &                       # users\n"
        "    driftgate promote tinylm --engine bf16 --wait --until awaiting_approval\n"
        "    driftgate approve tinylm --yes --token-file {0}/tokens/approver.token --reason \"read the "
        "figures\"\n"
        "    driftgate watch tinylm\n",
        folder);
  else
    text += "    driftgate promote MODEL --engine ENGINE --wait\n";
  return text + fmt::format("    driftgate doctor --config {}/driftgate.yaml\n", folder);
}

std::string readme_text(const FolderPlan& plan) {
  std::string text = fmt::format(
      "# A working folder of driftgate\n\n"
      "Next:\n\n{}\n"
      "| file | what it is |\n| --- | --- |\n"
      "| `driftgate.yaml` | the daemon's settings: addresses, `roots`, `adapters`; `driftgate settings` "
      "explains all |\n"
      "| `apply.yaml` | kernels, engines, contracts, models and their recipes, registered by `driftgate "
      "apply -f` |\n",
      next_commands(plan));
  if (!plan.contract.empty())
    text += fmt::format(
        "| `{}` | the first contract: what a candidate may not do worse; review it with `driftgate contract "
        "explain` |\n",
        first_contract_path(plan));
  text +=
      "| `env.sh` | sets `DRIFTGATE_URL` and `DRIFTGATE_TOKEN` for a shell |\n"
      "| `dev.json` | engines that `driftgate dev` starts beside the daemon |\n";
  if (plan.example) text += "| `traffic.sh` | users for the example: 100 requests a second |\n";
  text +=
      "| `tokens/` | made by `driftgate dev`: a token for each role, each readable by you alone |\n"
      "| `data/` | made by the daemon: database, log, keys and `admin.token` |\n"
      "| `logs/` | made by `driftgate dev`: what daemon and engines print |\n\n"
      "| token | may |\n| --- | --- |\n"
      "| `viewer` | read |\n"
      "| `promoter` | register kernels, engines and contracts, ask for promotions, set schedules |\n"
      "| `operator` | create models, abort, roll back, pause, lift holds, make backups |\n"
      "| `approver` | approve a step and waive a clause, never of a promotion that they asked for |\n"
      "| `auditor` | read the log and export evidence |\n"
      "| `engineer` | all that promoter, operator and auditor may: what `env.sh` uses |\n\n"
      "These are for one person who tries things out. For people, issue a token each:\n"
      "`driftgate token issue --token-file data/admin.token --name NAME --scope SCOPE --out FILE`.\n"
      "The paths in these files are absolute: make a new folder instead of moving this one.\n";
  return text;
}

}  // namespace

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string yaml_string(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);  // a string of JSON is one of YAML
}

std::string first_contract_path(const FolderPlan& plan) {
  return plan.example ? "contracts/tinylm-bf16.yaml" : "contracts/first.yaml";
}

std::vector<FolderFile> folder_files(const FolderPlan& plan) {
  std::vector<FolderFile> files{{kSettingsName, settings_text(plan)},
                                {kApplyName, apply_text(plan)},
                                {"env.sh", env_text(plan)},
                                {kDevName, dev_text(plan)},
                                {"README.md", readme_text(plan)}};
  if (!plan.contract.empty()) files.push_back({first_contract_path(plan), plan.contract});
  if (plan.example) files.push_back({"traffic.sh", traffic_text(plan), 0755});
  return files;
}

}  // namespace driftgate::cli
