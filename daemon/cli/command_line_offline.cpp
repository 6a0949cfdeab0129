#include "daemon/cli/command_parts.hpp"
#include "daemon/cli/drift/capture_options.hpp"

namespace driftgate::cli {

void CommandLine::add_offline_commands() {
  add_drift();
  contract_ = &group("contract", "Check, explain and register contracts");
  CLI::App* lint = command(*contract_, "lint", "Check contracts without a daemon", {},
                           [this] { return contract_lint(files_, offline_json_); });
  lint->add_option("files", files_, "Contract files")->required();
  lint->add_flag("--json", offline_json_, "Print JSON");
  CLI::App* explain = command(*contract_, "explain", "Explain what a contract requires",
                              {{"file", explain_.file, "Contract file"}},
                              [this] { return contract_explain(explain_, connection_); });
  add_explain_options(*explain, explain_);
  add_connection(*explain);
  add_contract_tools();
  add_capture_tools();
}

void CommandLine::add_contract_tools() {
  CLI::App* diff =
      command(*contract_, "diff", "Show what became stricter or looser, was added or was removed",
              {{"before", before_, "Contract file"}, {"after", file_.file, "Contract file"}},
              [this] { return contract_diff_command(before_, file_.file, offline_json_); });
  diff->add_flag("--json", offline_json_, "Print JSON");

  CLI::App* suggest = command(*contract_, "suggest", "Propose limits from captures, as YAML to review", {},
                              [this] { return contract_suggest(suggest_); });
  add_suggest_options(*suggest, suggest_);

  CLI::App* test = command(*contract_, "test", "Check that good captures pass and injected faults are caught",
                           {}, [this] { return contract_test(contract_test_); });
  add_contract_test_options(*test, contract_test_);
}

void CommandLine::add_drift() {
  CLI::App* sub = command(app_, "drift", "Measure the drift between two captures", {}, [this] {
    drift_.version = hooks_.version;
    return drift_command(drift_);
  });
  auto* train = sub->add_option("train", drift_.train, "Capture of K_train: file or folder");
  auto* inf = sub->add_option("inf", drift_.inf, "Capture of K_inf");
  sub->add_option("--train", drift_.train, "Capture of K_train, by name")->excludes(train);
  sub->add_option("--inf", drift_.inf, "Capture of K_inf, by name")->excludes(inf);
  sub->add_option("--corpus", drift_.corpus, "Sequences with their slices, JSON Lines");
  sub->add_option("--contract", drift_.contract, "Contract with the clauses to decide");
  add_floor_options(*sub, drift_.floors);
  sub->add_option("--json", drift_.json, "Write the report as JSON to this file (-: standard output)");
  sub->add_option(
      "--certificate", drift_.certificate,
      "Write the bounds, their meaning and their assumptions to this file, as a page of Markdown");
  sub->add_option(
         "--report", drift_.reports,
         "Write a report for continuous integration, FORMAT=FILE: junit, markdown or html; repeatable")
      ->type_name("FORMAT=FILE")
      ->allow_extra_args(false);
  sub->add_option("--rows-out", drift_.rows_out, "Write every per-row metric to this safetensors file");
  sub->add_option("--devices,--device", drift_.device, "cpu, cuda, cuda:all or cuda:0,1");
  sub->add_option("--ranks", drift_.ranks, "Ranks that share the work; a CUDA device is one rank");
  sub->add_option("--shard", drift_.shard,
                  "How ranks share the work: rows (whole sequences), vocab (columns) or auto (default)");
  sub->add_option("--exchange", drift_.exchange,
                  "How ranks communicate: auto (mpi under mpirun, else threads), threads, mpi or nccl");
  sub->add_option("--timeout", drift_.timeout_s, "Seconds that a rank waits for another rank (60)");
  sub->add_option(
      "--lm-head", drift_.lm_head,
      "For captures of hidden states: safetensors file with their head, instead of the one that they name");
  sub->add_option("--checkpoint", drift_.checkpoint,
                  "For captures of hidden states: folder or file of the checkpoint that contains their head");
  sub->add_option("--metrics", drift_.metrics,
                  "all, or core: only log-probabilities, KL, span and top-1, in one pass")
      ->check(CLI::IsMember({"all", "core"}));
  sub->add_option("--threads", drift_.threads, "Threads (0: one for each processor)");
  sub->add_option("--top-rows", drift_.top_rows, "Worst rows to report (20)");
  sub->add_option("--top-k", drift_.top_k, "k of topk_overlap (the contract's, or 10)");
}

void CommandLine::add_capture_tools() {
  CLI::App& captures = group("capture", "Captures of what kernels produced");
  CLI::App* import =
      command(captures, "import", "Write the log-probabilities that an engine returned as a capture", {},
              [this] { return capture_import(import_); });
  describe_capture_import(*import, import_);
  CLI::App* digest =
      command(captures, "digest", "Print the digests that captures of a checkpoint, on a corpus, must state",
              {}, [this] { return capture_digest_command(capture_digest_); });
  describe_capture_digest(*digest, capture_digest_);
}

}  // namespace driftgate::cli
