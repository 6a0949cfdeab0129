#include "daemon/cli/drift/capture_options.hpp"

#include <CLI/CLI.hpp>

namespace driftgate::cli {
namespace {

void add_capture_options(CLI::App& sub, drift::InputArgs& into, const std::string& inf_text) {
  sub.add_option("--train", into.train, "Capture of K_train")->required();
  sub.add_option("--inf", into.inf, inf_text)->required();
  sub.add_option("--corpus", into.corpus, "Sequences with their slices, JSON Lines");
  add_floor_options(sub, into.floors);
}

}  // namespace

void add_floor_options(CLI::App& sub, drift::FloorArgs& into) {
  sub.add_option(
         "--floor-train", into.train,
         "Noise floor: the rows of K_train captured again with another batch size. If given twice, the two "
         "are compared with each other")
      ->allow_extra_args(false);
  sub.add_option("--floor-inf", into.inf, "Noise floor: the same of K_inf, batch 1 and batch N")
      ->allow_extra_args(false);
}

void add_stage_capture_options(CLI::App& sub, const std::string& stage, CaptureArgs& into) {
  const std::string of = " of the " + stage + " corpus";
  const std::string option = "--" + stage;
  sub.add_option(option + "-train", into.train, "Capture of K_train" + of);
  sub.add_option(option + "-inf", into.inf, "Capture of K_inf" + of);
  sub.add_option(option + "-adapter", into.adapter, "Configured adapter that captures K_inf" + of);
  sub.add_option(option + "-corpus", into.corpus, "Sequences with their slices" + of);
  sub.add_option(option + "-floor-train", into.floor_train,
                 "Noise floor: K_train captured again with another batch size," + of);
  auto* floor = sub.add_option(option + "-floor-inf", into.floor_inf, "Noise floor: the same of K_inf," + of);
  sub.add_option(option + "-floor-inf-adapter", into.floor_inf_adapter,
                 "Configured adapter that captures K_inf with another batch size," + of)
      ->excludes(floor);
}

void add_suggest_options(CLI::App& sub, SuggestArgs& into) {
  add_capture_options(sub, into, "Capture of K_inf");
  sub.add_option("--name", into.name, "Name of the contract");
  sub.add_option("--headroom", into.headroom, "Limits are this multiple of the measured values");
  sub.add_option("--out", into.out, "File to write (standard output)");
}

void add_contract_test_options(CLI::App& sub, ContractTestArgs& into) {
  sub.add_option("file", into.contract, "Contract file")->required();
  add_capture_options(sub, into, "Capture of K_inf, known to be good");
  sub.add_option("--good", into.good, "A further capture that must pass; may be repeated")
      ->allow_extra_args(false);
  sub.add_option("--fault", into.faults, "NAME=CAPTURE of a broken K_inf; may be repeated")
      ->allow_extra_args(false);
  sub.add_option("--slice", into.slice, "Slice to corrupt, as language=de");
  sub.add_option("--work-dir", into.work_dir, "Folder for faulty captures (the temporary folder)");
  sub.add_flag("--json", into.json, "Print JSON");
}

}  // namespace driftgate::cli
