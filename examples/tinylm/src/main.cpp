#include <CLI/CLI.hpp>
#include <cstdio>

#include "capture.hpp"

namespace {

using namespace tinylm;

struct Common {
  std::string model, kernel, scales;
};

void add_common(CLI::App& app, Common& common) {
  app.add_option("--model", common.model, "Folder with config.json and model.safetensors")->required();
  app.add_option("--kernel", common.kernel, "f32, bf16, int8 or int8-static")
      ->required()
      ->check(CLI::IsMember({"f32", "bf16", "int8", "int8-static"}));
  app.add_option("--scales", common.scales, "Activation scales of int8-static [MODEL/activation_scales.safetensors]");
}

struct Loaded {
  Engine engine;
  std::string checkpoint_digest;
};

Result<Loaded> load(const Common& common) {
  auto model = load_model(common.model);
  if (!model) return std::unexpected(model.error());
  const Precision precision = precision_of(common.kernel).value_or(Precision::f32);
  ActivationMaxima maxima;
  if (precision == Precision::int8_static) {
    auto read = read_calibration(common.scales.empty() ? common.model + "/activation_scales.safetensors" : common.scales);
    if (!read) return std::unexpected(read.error());
    maxima = std::move(*read);
  }
  auto engine = Engine::create(*model, precision, maxima);
  if (!engine) return std::unexpected(engine.error());
  return Loaded{std::move(*engine), model->checkpoint_digest};
}

int failed(const Failure& failure) {
  std::fprintf(stderr, "tinylm: %s\n", failure.message.c_str());
  return 4;
}

int wrote(const std::string& out, const Result<std::size_t>& rows) {
  if (!rows) return failed(rows.error());
  std::printf("%s: %zu rows\n", out.c_str(), *rows);
  return 0;
}

int run_capture(const Common& common, const CaptureOptions& options) {
  auto loaded = load(common);
  if (!loaded) return failed(loaded.error());
  return wrote(options.out, write_capture(loaded->engine, loaded->checkpoint_digest, options));
}

int run_rollout(const Common& common, const RolloutOptions& options) {
  auto loaded = load(common);
  if (!loaded) return failed(loaded.error());
  return wrote(options.out, write_rollouts(loaded->engine, loaded->checkpoint_digest, options));
}

int run_calibrate(const std::string& model, const std::string& corpus, const std::string& out) {
  auto loaded = load({model, "f32", ""});
  if (!loaded) return failed(loaded.error());
  auto written = write_calibration(loaded->engine, corpus, out);
  if (!written) return failed(written.error());
  std::printf("%s: scales of int8-static\n", out.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A small language model and its serving engine"};
  app.require_subcommand(1);
  Common common;
  CaptureOptions capture;
  auto* capture_command = app.add_subcommand("capture", "Score a corpus and write a capture file");
  add_common(*capture_command, common);
  capture_command->add_option("--corpus", capture.corpus, "JSON Lines")->required();
  capture_command->add_option("--out", capture.out, "File to write")->required();
  capture_command->add_option("--like", capture.like, "Take the rows of this capture");
  capture_command->add_option("--positions", capture.positions, "Scored tokens at the end of each sequence")
      ->check(CLI::Range(1, 512));
  capture_command->add_option("--batch", capture.batch, "Sequences in one step")->check(CLI::Range(1, 64));
  RolloutOptions rollout;
  auto* rollout_command = app.add_subcommand("rollout", "Sample continuations of prompts as a corpus");
  add_common(*rollout_command, common);
  rollout_command->add_option("--prompts", rollout.prompts, "JSON Lines")->required();
  rollout_command->add_option("--out", rollout.out, "Corpus to write")->required();
  rollout_command->add_option("--capture", rollout.capture, "Capture of the sampled logits to write");
  rollout_command->add_option("--max-tokens", rollout.max_tokens, "Sampled tokens of each prompt");
  rollout_command->add_option("--seed", rollout.seed, "Seed of the sampler");
  std::string calibration_corpus, calibration_out;
  auto* calibrate_command = app.add_subcommand("calibrate", "Write the activation scales of int8-static");
  calibrate_command->add_option("--model", common.model, "Model folder")->required();
  calibrate_command->add_option("--corpus", calibration_corpus, "JSON Lines")->required();
  calibrate_command->add_option("--out", calibration_out, "File to write")->required();
  CLI11_PARSE(app, argc, argv);
  if (*capture_command) return run_capture(common, capture);
  if (*rollout_command) return run_rollout(common, rollout);
  return run_calibrate(common.model, calibration_corpus, calibration_out);
}
