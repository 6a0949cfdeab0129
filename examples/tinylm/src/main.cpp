#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/tinylm/src/capture.hpp"
#include "examples/tinylm/src/load.hpp"
#include "examples/tinylm/src/serving/server.hpp"
#include "examples/tinylm/src/weight_faults.hpp"

namespace {

using namespace tinylm;

struct Common {
  std::string model, kernel, scales;
  std::string weight_fault = "";
};

void add_common(CLI::App& app, Common& common) {
  app.add_option("--model", common.model, "Folder with config.json and model.safetensors")->required();
  app.add_option("--kernel", common.kernel, "f32, bf16, int8 or int8-static")
      ->required()
      ->check(CLI::IsMember({"f32", "bf16", "int8", "int8-static"}));
  app.add_option("--scales", common.scales,
                 "Activation scales of int8-static [MODEL/../int8-static/activation_scales.safetensors]");
}

struct Loaded {
  Engine engine;
  std::string checkpoint_digest;
};

Result<Loaded> load(const Common& common) {
  auto model = load_model(common.model);
  if (!model) return std::unexpected(model.error());
  if (const auto fault = weight_fault_of(common.weight_fault)) apply_weight_fault(*model, *fault);
  const Precision precision = precision_of(common.kernel).value_or(Precision::f32);
  ActivationMaxima maxima;
  if (precision == Precision::int8_static) {
    auto read = read_calibration(common.scales.empty()
                                     ? common.model + "/../int8-static/activation_scales.safetensors"
                                     : common.scales);
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
  auto loaded = load({.model = model, .kernel = "f32", .scales = ""});
  if (!loaded) return failed(loaded.error());
  auto written = write_calibration(loaded->engine, corpus, out);
  if (!written) return failed(written.error());
  std::printf("%s: scales of int8-static\n", out.c_str());
  return 0;
}

int run_serve(const Common& common, const ServeOptions& options) {
  auto loaded = load(common);
  if (!loaded) return failed(loaded.error());
  const auto ended = serve(std::move(loaded->engine), loaded->checkpoint_digest, options);
  return ended ? 0 : failed(ended.error());
}

void add_serve_options(CLI::App& app, ServeOptions& serve, int& delay_ms) {
  app.add_option("--host", serve.host, "Numeric IPv4 address to listen on")->capture_default_str();
  app.add_option("--port", serve.port, "Port; 0 selects a free one")->capture_default_str();
  app.add_option("--port-file", serve.port_file, "File that the port is written to once the server listens");
  app.add_option("--model-name", serve.model_name, "Name in /v1/models")->capture_default_str();
  app.add_option("--threads", serve.threads, "Worker threads, each with its own batch")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--max-batch", serve.limits.max_batch, "Sequences in a step")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  FaultOptions& faults = serve.faults;
  const CLI::Range share(0.0, 1.0);
  app.add_option("--fail-share", faults.fail_share, "Share of generating requests answered 500")
      ->check(share);
  app.add_option("--fail-after-requests", faults.fail_after_requests,
                 "Failures begin after this many requests");
  app.add_option("--fail-text", faults.fail_text, "Only requests whose body contains this text fail");
  app.add_option("--fail-file", faults.fail_file, "Failures begin once this file exists");
  app.add_option("--garbage-share", faults.garbage_share,
                 "Share of generating requests answered with a broken body")
      ->check(share);
  app.add_option("--garbage-after-requests", faults.garbage_after_requests,
                 "Broken bodies begin after this many requests");
  app.add_option("--delay-ms", delay_ms, "Delay of the delayed requests")->check(CLI::Range(0, 60000));
  app.add_option("--delay-share", faults.delay_share, "Share that is delayed")->check(share);
  app.add_option("--delay-after-requests", faults.delay_after_requests,
                 "Delays begin after this many requests");
  app.add_option("--fault-seed", faults.seed, "Seed of the choice of faults")->capture_default_str();
}

void add_load_options(CLI::App& app, LoadOptions& load) {
  app.add_option("--url", load.url, "http://127.0.0.1:PORT")->required();
  app.add_option("--prompts", load.prompts, "JSON Lines with prompt and slices")->required();
  app.add_option("--rate", load.rate, "Requests per second")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 10000.0));
  auto* requests = app.add_option("--requests", load.requests, "Requests in all");
  app.add_option("--seconds", load.seconds, "Duration in seconds, without --requests")->excludes(requests);
  app.add_option("--max-tokens", load.max_tokens, "max_tokens of each request")->capture_default_str();
  app.add_option("--model", load.model, "Model name in the requests")->capture_default_str();
  app.add_option("--key-prefix", load.key_prefix, "Beginning of the sticky keys")->capture_default_str();
  app.add_option("--keys", load.keys, "Distinct sticky keys [one for each request]");
  app.add_option("--stream-share", load.stream_share, "Share of streamed requests")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--chat-share", load.chat_share, "Share sent as chat completions")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--concurrency", load.concurrency, "Maximum number of connections")->capture_default_str();
  app.add_option("--seed", load.seed, "Seed of prompts and sampling")->capture_default_str();
  app.add_option("--json", load.json_out, "File for the summary");
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
  capture_command->add_option("--like", capture.like, "Score the same rows as this capture");
  capture_command->add_option("--positions", capture.positions, "Scored tokens at the end of each sequence")
      ->check(CLI::Range(1, 512));
  capture_command
      ->add_option(
          "--weight-fault", common.weight_fault,
          "Evaluate wrong weights under the digest of the checkpoint: swapped-layers or stale-weights")
      ->check(CLI::IsMember({"swapped-layers", "stale-weights"}));
  capture_command->add_option("--batch", capture.batch, "Sequences in one step")->check(CLI::Range(1, 64));
  capture_command->add_flag("--hidden", capture.hidden,
                            "Write hidden states before lm_head in place of logits");
  RolloutOptions rollout;
  auto* rollout_command = app.add_subcommand("rollout", "Sample continuations of prompts as a corpus");
  add_common(*rollout_command, common);
  rollout_command->add_option("--prompts", rollout.prompts, "JSON Lines")->required();
  rollout_command->add_option("--out", rollout.out, "Corpus to write")->required();
  rollout_command->add_option("--capture", rollout.capture,
                              "Capture file to write, with the logits that were sampled from");
  rollout_command->add_option("--max-tokens", rollout.max_tokens, "Tokens to sample for each prompt");
  rollout_command->add_option("--seed", rollout.seed, "Seed of the sampler");
  rollout_command->add_option("--batch", rollout.batch, "Sequences that are continued together [1]")
      ->check(CLI::Range(1, 512));
  rollout_command->add_option("--top-p", rollout.top_p,
                              "Sample from the most likely tokens that hold this share of the mass [1: all]");
  std::string calibration_corpus, calibration_out;
  auto* calibrate_command = app.add_subcommand("calibrate", "Write the activation scales of int8-static");
  calibrate_command->add_option("--model", common.model, "Model folder")->required();
  calibrate_command->add_option("--corpus", calibration_corpus, "JSON Lines")->required();
  calibrate_command->add_option("--out", calibration_out, "File to write")->required();
  ServeOptions serving;
  int delay_ms = 1000;
  auto* serve_command = app.add_subcommand("serve", "Serve the OpenAI completions API");
  add_common(*serve_command, common);
  add_serve_options(*serve_command, serving, delay_ms);
  LoadOptions load_options;
  auto* load_command = app.add_subcommand("load", "Send paced traffic to a server on this machine");
  add_load_options(*load_command, load_options);
  CLI11_PARSE(app, argc, argv);
  if (*capture_command) return run_capture(common, capture);
  if (*serve_command) {
    serving.faults.delay = std::chrono::milliseconds(delay_ms);
    return run_serve(common, serving);
  }
  if (*load_command) {
    const auto loaded = run_load(load_options);
    return loaded ? 0 : failed(loaded.error());
  }
  if (*rollout_command) return run_rollout(common, rollout);
  return run_calibrate(common.model, calibration_corpus, calibration_out);
}
