#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu/ingest/answer_shape.hpp"
#include "gpu/ingest/answer_tokens.hpp"
#include "gpu/ingest/response_formats.hpp"
#include "schema/json.hpp"

namespace driftgate::gpu::ingest {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::array<std::string_view, 6> kFormats{"openai", "chat",     "vllm",
                                                   "sglang", "llamacpp", "llamacpp-logits"};
constexpr schema::JsonLimits kLimits{kMaxDocumentBytes, 32, kMaxDocumentValues};

/// Whether the response says that it has other tokens than it lists.
bool lacks_tokens(Format format, const nlohmann::json& response) {
  if (format != Format::chat && format != Format::llamacpp) return false;
  StatedTokens stated;
  add_stated(response, stated);
  if (!stated.count || stated.several || shape_of(response) != format) return false;
  const auto tokens = answer_tokens(response);
  return tokens && !lists_every_token(*tokens, stated);
}

Result<void> read_response(std::optional<Format> format, const Place& response, RowCollector& collector) {
  if (!format) format = shape_of(response.value);
  if (!format)
    return collector.fail(response, "holds no log-probabilities in a shape that is known, which are " +
                                        known_shapes() + ": ask the engine for log-probabilities");
  if (lacks_tokens(*format, response.value)) {
    collector.leave_out(response);
    return {};
  }
  switch (*format) {
    case Format::openai:
      return read_openai(response, collector);
    case Format::chat:
      return read_chat(response, collector);
    case Format::vllm:
      return read_vllm(response, collector);
    case Format::sglang:
      return read_sglang(response, collector);
    case Format::llamacpp:
      return read_llamacpp(response, collector);
    case Format::llamacpp_logits:
      break;
  }
  return collector.fail(response, "is JSON, but llamacpp-logits is a binary format");
}

Result<void> read_document(std::optional<Format> format, std::string_view text, RowCollector& collector,
                           const std::string& name) {
  const auto document = TRY(schema::parse_json(text, kLimits, name));
  if (!document.is_array()) return read_response(format, {document, ""}, collector);
  for (std::size_t i = 0; i < document.size(); ++i) {
    TRY(read_response(format, {document[i], fmt::format("/{}", i)}, collector));
  }
  return {};
}

/// JSON Lines are distinguished from one document over several lines by the first line, which is a complete
/// document in JSON Lines.
bool is_lines(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return false;
  const bool more = text.find_first_not_of(" \t\r\n", end) != std::string_view::npos;
  return more && schema::check_json(text.substr(0, end), kLimits).has_value();
}

}  // namespace

std::string_view to_string(Format format) {
  return kFormats.at(static_cast<std::size_t>(format));
}

std::optional<Format> format_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i] == name) return static_cast<Format>(i);
  }
  return std::nullopt;
}

Result<TokenMap> TokenMap::read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return schema::fail(ErrorCode::io, "cannot open the token map " + path);
  std::error_code none;
  if (std::filesystem::file_size(path, none) > kMaxDocumentBytes) {
    return schema::fail(
        ErrorCode::limit_exceeded,
        fmt::format("the token map {} is not a readable file of at most {} bytes", path, kMaxDocumentBytes));
  }
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto document = TRY(schema::parse_json(text, kLimits, "the token map " + path));
  TokenMap out;
  if (!document.is_object()) {
    return schema::fail(ErrorCode::invalid_document,
                        "the token map " + path + " is not an object from token text to token id");
  }
  for (const auto& [token, id] : document.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= std::uint64_t{kEndOfIds}) {
      return schema::fail(ErrorCode::invalid_document,
                          fmt::format("the token map {} gives no id for {}: an integer from 0 to "
                                      "2147483647 is needed",
                                      path, schema::pointer_token(token)));
    }
    out.add(token, id.get<std::int64_t>());
  }
  return out;
}

Result<EngineRows> read_responses(std::optional<Format> format, std::string_view text,
                                  const ReadOptions& options, const std::string& name) {
  EngineRows out;
  RowCollector collector(options, out, name);
  if (is_event_stream(text)) {
    const auto answers = TRY(join_streams(text, name));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      RowCollector of_stream(options, out, fmt::format("{}, stream {}", name, i + 1));
      TRY(read_response(format, {answers[i], ""}, of_stream));
    }
    return out;
  }
  if (!is_lines(text)) {
    TRY(read_document(format, text, collector, name));
    return out;
  }
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}, line {}", name, number);
    RowCollector of_line(options, out, place);
    TRY(read_document(format, line, of_line, place));
  }
  return out;
}

}  // namespace driftgate::gpu::ingest
