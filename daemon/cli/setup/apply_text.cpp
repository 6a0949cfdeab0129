#include <fmt/format.h>

#include "daemon/cli/setup/working_folder.hpp"

namespace driftgate::cli {
namespace {

constexpr const char* kHead =
    "# What this daemon knows, for 'driftgate apply -f'; '--dry-run' prints what would change. Applying a "
    "file again\n"
    "# changes nothing. Relative paths are relative to this file.\n"
    "apiVersion: driftgate/v1\n"
    "kind: Setup\n\n";

/// The name that a contract gives itself: `name:` below `metadata:`, as driftgate's own texts are laid out.
std::string name_in(const std::string& contract) {
  const auto metadata = contract.find("metadata:");
  if (metadata == std::string::npos) return {};
  constexpr std::string_view kName = "name:";
  const auto at = contract.find(kName, metadata);
  if (at == std::string::npos) return {};
  auto name = contract.substr(at + kName.size(), contract.find_first_of("\n,}", at) - at - kName.size());
  const auto from = name.find_first_not_of(" \""), to = name.find_last_not_of(" \"");
  return from == std::string::npos ? std::string() : name.substr(from, to - from + 1);
}

std::string example_text(const FolderPlan& plan) {
  const std::string model = yaml_string((plan.example->folder / "model").string());
  const auto data = [&](const char* name) {
    return yaml_string((plan.example->folder / "data" / name).string());
  };
  std::string text =
      "kernels:                # the programs that evaluate the weights\n"
      "  - document: {name: tinylm-f32, engine: tinylm, version: 0.1.0, dtype: float32, attention: \"causal, "
      "full\", "
      "kv_cache: float32, hardware: cpu}\n"
      "  - document: {name: tinylm-bf16, engine: tinylm, version: 0.1.0, dtype: bfloat16, attention: "
      "\"causal, full\", "
      "kv_cache: float32, hardware: cpu}\n\n";
  text += fmt::format("contracts:              # what a candidate may not do worse\n  - {}\n\n",
                      first_contract_path(plan));
  text += fmt::format(
      "engines:                # where a kernel serves a checkpoint\n"
      "  - {{name: f32, url: \"http://127.0.0.1:{}\", kernel: tinylm-f32, checkpoint: {}}}\n"
      "  - {{name: bf16, url: \"http://127.0.0.1:{}\", kernel: tinylm-bf16, checkpoint: {}}}\n\n",
      plan.engine_ports.at(0), model, plan.engine_ports.at(1), model);
  text +=
      "models:                 # the name that clients send, and its first version\n"
      "  - {name: tinylm, engine: f32, reason: \"first version: the high-precision kernel\"}\n\n";
  text += fmt::format(
      "recipes:                # what 'driftgate promote tinylm --engine bf16' takes for what it is not "
      "told\n"
      "  - model: tinylm\n"
      "    contract: {}\n"
      "    captures:\n"
      "      numeric:\n"
      "        train: {}\n"
      "        inf: {{adapter: tinylm-bf16}}\n"
      "        corpus: {}\n"
      "        floor: {{train: {}, inf: {{adapter: tinylm-bf16-batch8}}}}\n"
      "      slice: {{train: {}, inf: {{adapter: tinylm-bf16}}, corpus: {}}}\n",
      name_in(plan.contract), data("captures/numeric_train.safetensors"), data("numeric.jsonl"),
      data("captures/numeric_train_batch8.safetensors"), data("captures/slice_train.safetensors"),
      data("slice.jsonl"));
  return text;
}

/// Nothing is known of engines and models: what is to be filled in stands behind a #.
std::string skeleton(const FolderPlan& plan) {
  std::string text =
      "#kernels:               # the programs that evaluate the weights\n"
      "#  - document: {name: my-train, engine: pytorch, dtype: bfloat16}\n"
      "#  - document: {name: my-kernel, engine: vllm, dtype: fp8}\n\n";
  if (plan.contract.empty())
    text +=
        "#contracts:             # what a candidate may not do worse: 'driftgate contract suggest' drafts "
        "one\n#  - contracts/first.yaml\n\n";
  else
    text += fmt::format("contracts:              # what a candidate may not do worse\n  - {}\n\n",
                        first_contract_path(plan));
  text +=
      "#engines:               # where a kernel serves a checkpoint\n"
      "#  - {name: old, url: \"http://127.0.0.1:8101\", kernel: my-train, checkpoint: /srv/models/my-model}\n"
      "#  - {name: new, url: \"http://127.0.0.1:8102\", kernel: my-kernel, checkpoint: "
      "/srv/models/my-model}\n\n"
      "#models:                # the name that clients send, and its first version\n"
      "#  - {name: my-model, engine: old, reason: first version}\n\n"
      "#recipes:               # what 'driftgate promote my-model --engine new' takes for what it is not "
      "told\n"
      "#  - model: my-model\n";
  text += fmt::format("#    contract: {}\n#    captures:\n",
                      plan.contract.empty() ? "first" : name_in(plan.contract));
  if (!plan.captures)
    return text +
           "#      numeric: {train: /srv/captures/train.safetensors, inf: {adapter: my-kernel}, corpus: "
           "/srv/captures/corpus.jsonl}\n";
  text += fmt::format("#      numeric: {{train: {}, inf: {}", yaml_string(plan.captures->train.string()),
                      yaml_string(plan.captures->inf.string()));
  if (!plan.captures->corpus.empty()) text += ", corpus: " + yaml_string(plan.captures->corpus.string());
  return text + "}\n";
}

}  // namespace

std::string apply_text(const FolderPlan& plan) {
  return kHead + (plan.example ? example_text(plan) : skeleton(plan));
}

}  // namespace driftgate::cli
