#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/cpu/row_engine.hpp"
#include "gpu/ingest/engine_rows.hpp"

namespace driftgate::gpu::ingest {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr std::size_t kHeaderBytes = 20, kRowHeaderBytes = 8;
constexpr std::uint32_t kMaxContext = 1U << 24, kMaxChunks = 1U << 24;
constexpr float kMaxScale = 16.0F / 65'535;  ///< 16 nats in 16 bits

template <typename T>
T number_at(std::string_view bytes, std::size_t offset) {
  T out{};
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return out;
}

struct Header {
  std::uint32_t context = 0, vocabulary = 0, chunks = 0;
  [[nodiscard]] std::uint64_t tokens() const { return std::uint64_t{context} * chunks; }
  /// The positions of one chunk that have rows: the second half without the last, whose next token is not in
  /// the file.
  [[nodiscard]] std::uint32_t first() const { return context / 2; }
  [[nodiscard]] std::uint32_t rows() const { return context - 1 - first(); }
  [[nodiscard]] std::uint64_t row_bytes() const {
    return kRowHeaderBytes + 2 * ((std::uint64_t{vocabulary} + 1) / 2 * 2);
  }
};

std::unexpected<schema::Error> refuse(const std::string& name, const std::string& what) {
  return schema::fail(ErrorCode::invalid_document, name + ": " + what);
}

Result<Header> read_header(std::string_view bytes, std::size_t listed, const std::string& name) {
  if (!is_saved_logits(bytes)) {
    return refuse(
        name,
        "this is not a file written by llama.cpp's --kl-divergence-base: it does not start with _logits_");
  }
  if (bytes.size() < kHeaderBytes) return refuse(name, "the file ends within its header");
  const Header out{number_at<std::uint32_t>(bytes, 8), number_at<std::uint32_t>(bytes, 12),
                   number_at<std::uint32_t>(bytes, 16)};
  if (out.context < 4 || out.context > kMaxContext)
    return refuse(name,
                  fmt::format("the context of {} tokens is not from 4 to {}", out.context, kMaxContext));
  if (out.vocabulary == 0 || out.vocabulary > cpu::kMaxVocabulary) {
    return refuse(
        name, fmt::format("the vocabulary of {} is not from 1 to {}", out.vocabulary, cpu::kMaxVocabulary));
  }
  if (out.chunks == 0 || out.chunks > kMaxChunks)
    return refuse(name, fmt::format("the number of chunks, {}, is not from 1 to {}", out.chunks, kMaxChunks));
  const std::uint64_t rows = std::uint64_t{out.rows()} * out.chunks;
  if (rows > kMaxRows) return refuse(name, fmt::format("more than {} rows", kMaxRows));
  if (rows * std::min<std::uint64_t>(listed, out.vocabulary) > kMaxKept) {
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("{}: {} tokens of {} rows are more than {} in all: keep fewer (--top-k)",
                                    name, listed, rows, kMaxKept));
  }
  const std::uint64_t wanted = kHeaderBytes + 4 * out.tokens() + rows * out.row_bytes();
  if (bytes.size() != wanted) {
    return refuse(name, fmt::format("the file has {} bytes where its header asks for {}: is it truncated?",
                                    bytes.size(), wanted));
  }
  return out;
}

/// The codes of a row: log p = scale·code + least, where code 0 only means "at most".
struct Codes {
  std::string_view bytes;
  float scale = 0, least = 0;
  [[nodiscard]] std::uint16_t at(std::uint32_t v) const {
    return number_at<std::uint16_t>(bytes, kRowHeaderBytes + 2 * std::size_t{v});
  }
  /// When the scale is 0, all tokens are equally likely, and code 0 gives their log-probability.
  [[nodiscard]] bool known(std::uint32_t v) const { return scale == 0 || at(v) > 0; }
  [[nodiscard]] float logprob(std::uint32_t v) const {
    return std::min(0.0F, scale * static_cast<float>(at(v)) + least);
  }
};

/// The most likely tokens of a row whose log-probability is known.
void keep_likeliest(const Codes& codes, std::uint32_t vocabulary, std::size_t count,
                    std::vector<std::uint32_t>& scratch, EngineRow& row) {
  scratch.clear();
  for (std::uint32_t v = 0; v < vocabulary; ++v) {
    if (codes.known(v)) scratch.push_back(v);
  }
  const auto likelier = [&](std::uint32_t a, std::uint32_t b) {
    return codes.at(a) != codes.at(b) ? codes.at(a) > codes.at(b) : a < b;
  };
  const std::size_t kept = std::min(count, scratch.size());
  std::partial_sort(scratch.begin(), scratch.begin() + static_cast<std::ptrdiff_t>(kept), scratch.end(),
                    likelier);
  for (std::size_t i = 0; i < kept; ++i) row.list.push_back({scratch[i], codes.logprob(scratch[i])});
}

}  // namespace

bool is_saved_logits(std::string_view bytes) {
  return bytes.starts_with(kMagic);
}

Result<EngineRows> read_saved_logits(std::string_view bytes, const ReadOptions& options,
                                     const std::string& name) {
  const std::size_t count = std::clamp<std::size_t>(options.listed, 1, kMaxListed);
  const auto header = TRY(read_header(bytes, count, name));
  EngineRows out;
  out.vocabulary = header.vocabulary;
  out.sequences = header.chunks;
  std::vector<std::uint32_t> scratch;
  std::size_t at = kHeaderBytes + 4 * static_cast<std::size_t>(header.tokens());
  for (std::uint32_t chunk = 0; chunk < header.chunks; ++chunk) {
    for (std::uint32_t i = 0; i < header.rows(); ++i) {
      const std::string_view row_bytes = bytes.substr(at, static_cast<std::size_t>(header.row_bytes()));
      at += row_bytes.size();
      const Codes codes{row_bytes, number_at<float>(row_bytes, 0), number_at<float>(row_bytes, 4)};
      const std::uint32_t position = header.first() + i + 1;
      const std::string where = fmt::format("row {} of chunk {}", i, chunk);
      if (!(codes.scale >= 0 && codes.scale <= kMaxScale * 1.001F) || !std::isfinite(codes.least) ||
          codes.least > 0) {
        return refuse(name, where + " has an impossible scale or least log-probability");
      }
      EngineRow row{options.first_sequence + chunk, position, 0, {}, {}};
      const std::size_t token_at = kHeaderBytes + 4 * (std::size_t{chunk} * header.context + position);
      row.token = number_at<std::int32_t>(bytes, token_at);
      if (row.token < 0 || row.token >= header.vocabulary) {
        return refuse(name, fmt::format("{} is followed by token {}, outside the vocabulary of {}", where,
                                        row.token, header.vocabulary));
      }
      const auto token = static_cast<std::uint32_t>(row.token);
      if (codes.known(token)) row.logprob = codes.logprob(token);
      keep_likeliest(codes, header.vocabulary, count, scratch, row);
      if (row.list.empty()) return refuse(name, where + " gives the log-probability of no token");
      out.logprob_error = std::max(out.logprob_error, static_cast<double>(codes.scale) / 2);
      out.rows.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace driftgate::gpu::ingest
