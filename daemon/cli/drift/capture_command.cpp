#include "daemon/cli/drift/capture_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output_files.hpp"
#include "gpu/backend/backend_input.hpp"
#include "gpu/cpu/row_engine.hpp"
#include "gpu/ingest/engine_rows.hpp"

namespace driftgate::cli {

namespace {

using gpu::ingest::EngineRows;
using gpu::ingest::Format;
using schema::ErrorCode;
using schema::Result;

/// Saved logits of a long text are tens of gigabytes and are read in one piece here.
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{16} << 30;
constexpr std::uintmax_t kMagicBytes = 8;  // by which they are known

Result<std::string> read_file(const std::string& path) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  if (std::filesystem::is_directory(status))
    return schema::fail(ErrorCode::io, path + " is a folder; name the files in it");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return schema::fail(ErrorCode::io, path + " is not a regular file; save the answers to one first");
  }
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return schema::fail(ErrorCode::io, "cannot open " + path + ": " + std::strerror(errno));
  const auto size = static_cast<std::uintmax_t>(std::max<std::streamoff>(0, stream.tellg()));
  std::string begin(std::min<std::uintmax_t>(size, kMagicBytes), '\0');
  stream.seekg(0);
  stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  const std::uintmax_t limit =
      gpu::ingest::is_saved_logits(begin) ? kMaxFileBytes : gpu::ingest::kMaxDocumentBytes;
  if (size > limit) {
    return schema::fail(
        ErrorCode::limit_exceeded,
        fmt::format("{} has {} bytes, and at most {} are read; import it in parts", path, size, limit));
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  stream.seekg(0);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream && size > 0) return schema::fail(ErrorCode::io, "cannot read " + path);
  return bytes;
}

Result<EngineRows> read_all(const CaptureImportArgs& args, std::optional<Format> format) {
  gpu::ingest::ReadOptions options;
  options.matched = args.matched;
  if (args.listed) options.listed = *args.listed;
  options.first_sequence = args.first_sequence;
  if (!args.token_map.empty()) {
    auto tokens = TRY(gpu::ingest::TokenMap::read(args.token_map));
    options.tokens = std::move(tokens);
  }
  EngineRows all;
  for (const std::string& path : args.files) {
    const auto bytes = TRY(read_file(path));
    const bool logits = format ? format == Format::llamacpp_logits : gpu::ingest::is_saved_logits(bytes);
    auto part = TRY(logits ? gpu::ingest::read_saved_logits(bytes, options, path)
                           : gpu::ingest::read_responses(format, bytes, options, path));
    options.first_sequence += part.sequences;
    all.sequences += part.sequences;
    if (all.vocabulary != 0 && part.vocabulary != all.vocabulary) {
      return schema::fail(ErrorCode::invalid_argument,
                          path + " has another vocabulary than the files before it");
    }
    all.vocabulary = part.vocabulary;
    if (all.incomplete == 0) all.first_incomplete = part.first_incomplete;
    all.incomplete += part.incomplete;
    all.logprob_error = std::max(all.logprob_error, part.logprob_error);
    if (all.rows.size() + part.rows.size() > gpu::ingest::kMaxRows) {
      return schema::fail(
          ErrorCode::limit_exceeded,
          fmt::format("up to {} there are more than {} rows; import in parts", path, gpu::ingest::kMaxRows));
    }
    std::ranges::move(part.rows, std::back_inserter(all.rows));
  }
  return all;
}

/// What is wrong with the options, or nothing. An option that the format does not use is refused, since the
/// capture would not be what was requested.
std::string fault_of(const CaptureImportArgs& args, std::optional<Format> format) {
  if (!std::isfinite(args.temperature) || args.temperature < gpu::kLeastTemperature)
    return fmt::format("temperature {} is not a number of at least 1e-6", args.temperature);
  const bool of_texts = format == Format::openai || format == Format::chat;
  if (!format) return {};
  if (args.listed && format != Format::llamacpp_logits)
    return "--top-k is for llamacpp-logits; the other formats list the tokens that the engine was asked for";
  if (!args.token_map.empty() && !of_texts)
    return "--token-map is for openai and chat; the other formats contain token ids";
  if (args.matched && format == Format::llamacpp_logits)
    return "--matched is for lists of ids that a request named, but a file of saved logits contains all "
           "tokens";
  return {};
}

/// Says how many answers were left out, and which is the first.
void warn_incomplete(const EngineRows& rows) {
  if (rows.incomplete == 0) return;
  fmt::print(stderr,
             "driftgate: capture import: {} of {} answers were left out, the first of them {}: the engine "
             "lists fewer tokens than it says it generated (llama.cpp lists a character of several tokens "
             "once), so their ids and positions are not known\n",
             rows.incomplete, rows.sequences, rows.first_incomplete);
}

}  // namespace

void describe_capture_import(CLI::App& command, CaptureImportArgs& args) {
  command
      .add_option("files", args.files,
                  "Answers as JSON, JSON Lines or the events of streams, or a file of saved logits")
      ->required();
  command
      .add_option("--format", args.format,
                  "Format of the files; without it each answer is read by what it holds")
      ->check(CLI::IsMember({"openai", "chat", "vllm", "sglang", "llamacpp", "llamacpp-logits"}));
  command.add_option("--out", args.out, "Capture to write, safetensors")->required();
  command.add_option("--kernel", args.kernel, "Name of the kernel that answered");
  command.add_option("--checkpoint-digest", args.checkpoint_digest, "Digest of the weights");
  command.add_option("--corpus-digest", args.corpus_digest, "Digest of the corpus");
  command.add_option("--token-source", args.token_source,
                     "Kernel that sampled the tokens; without it they are the corpus's");
  command.add_option("--sampling-filter", args.sampling_filter,
                     "What was applied before the log-probabilities were taken; without it none");
  command.add_option("--temperature", args.temperature, "Temperature of the log-probabilities");
  command.add_option("--vocabulary", args.vocabulary, "Size of the vocabulary; limits entropies and ids")
      ->check(CLI::Range(std::uint32_t{1}, gpu::cpu::kMaxVocabulary));
  command.add_option("--token-map", args.token_map,
                     "JSON object from token text to id, for formats without ids");
  command.add_flag(
      "--matched", args.matched,
      "The lists contain ids that the request named (SGLang: *_token_ids_logprobs), not the top k");
  command.add_option("--top-k", args.listed, "llamacpp-logits: tokens of each row to keep")
      ->check(CLI::Range(std::uint32_t{1}, static_cast<std::uint32_t>(gpu::ingest::kMaxListed)));
  command.add_option("--first-sequence", args.first_sequence, "Number of the first response's sequence")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 53));
}

int capture_import(const CaptureImportArgs& args) {
  const auto format = args.format.empty() ? std::nullopt : gpu::ingest::format_from_name(args.format);
  if (const std::string fault = fault_of(args, format); !fault.empty()) {
    fmt::print(stderr, "driftgate: capture import: {}\n", fault);
    return kExitUsage;
  }
  std::vector<std::string> inputs = args.files;
  inputs.push_back(args.token_map);
  if (auto ok = check_outputs({{"--out", args.out, true}}, inputs); !ok) return report_offline(ok.error());
  const auto rows = read_all(args, format);
  if (!rows) return report(rows.error());
  warn_incomplete(*rows);
  gpu::ingest::CaptureLabels labels{args.kernel,          args.checkpoint_digest,
                                    args.corpus_digest,   args.token_source,
                                    args.sampling_filter, fmt::format("{}", args.temperature),
                                    args.vocabulary,      args.matched};
  if (auto ok = gpu::ingest::write_capture(*rows, labels, args.out); !ok) return report(ok.error());
  const auto written = gpu::Capture::open(args.out);
  if (!written) return report(written.error());
  fmt::print("{}: {} rows of {} sequences, mode {}{}\n", args.out, written->rows(), rows->sequences,
             gpu::to_string(written->mode()),
             written->columns() > 0 ? fmt::format(", up to {} tokens listed", written->columns()) : "");
  return kExitOk;
}

}  // namespace driftgate::cli
