#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gpu/ingest/engine_rows.hpp"

namespace driftgate::gpu::ingest {

inline constexpr std::int64_t kEndOfIds = std::int64_t{1} << 31;  ///< captures hold ids as I32
/// Parses a token id in decimal digits. Returns nothing for any other text and for ids from kEndOfIds on.
[[nodiscard]] std::optional<std::int64_t> id_in(std::string_view digits);

/// A member of a response and its JSON pointer, which error messages contain.
struct Place {
  const nlohmann::json& value;
  std::string pointer;

  /// The member with this name; nothing when it is absent or null.
  [[nodiscard]] std::optional<Place> find(const char* name) const;
  [[nodiscard]] Place at(std::size_t index) const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] std::size_t size() const;
};

/// Collects the rows of the responses of one file.
class RowCollector {
 public:
  RowCollector(const ReadOptions& options, EngineRows& out, std::string name)
      : options_(options), out_(out), name_(std::move(name)) {}

  [[nodiscard]] const ReadOptions& options() const { return options_; }
  [[nodiscard]] std::int64_t next_sequence() { return options_.first_sequence + out_.sequences++; }
  /// Adds the row unless nothing is known of it. Errors: limit_exceeded, and invalid_document for a token
  /// that is listed twice.
  [[nodiscard]] schema::Result<void> keep(EngineRow row);
  /// Counts a response as a sequence without rows, since its list of tokens is not that of all its tokens.
  void leave_out(const Place& response);

  [[nodiscard]] std::unexpected<schema::Error> fail(const Place& place, const std::string& what) const;
  /// A log-probability, finite or NaN; nothing (unknown) for null, "-Infinity", and −9999 and below.
  [[nodiscard]] schema::Result<std::optional<float>> logprob(const Place& place) const;
  [[nodiscard]] schema::Result<std::int64_t> id(const Place& place) const;
  /// The id of a token that the response names by its text. Errors: invalid_document where it is unknown,
  /// saying how to supply it.
  [[nodiscard]] schema::Result<std::int64_t> id_of_text(const Place& place) const;
  [[nodiscard]] schema::Result<std::int64_t> id_of_text(std::string_view text, const Place& place) const;
  /// Adds the token to the list of the row if its log-probability is known.
  [[nodiscard]] schema::Result<void> list(std::int64_t id, const Place& logprob, EngineRow& row) const;

 private:
  const ReadOptions& options_;
  EngineRows& out_;
  std::string name_;
};

/// One reader for each response format; each adds the rows of one response.
[[nodiscard]] schema::Result<void> read_openai(const Place& response, RowCollector& collector);
[[nodiscard]] schema::Result<void> read_chat(const Place& response, RowCollector& collector);
[[nodiscard]] schema::Result<void> read_vllm(const Place& response, RowCollector& collector);
[[nodiscard]] schema::Result<void> read_sglang(const Place& response, RowCollector& collector);
[[nodiscard]] schema::Result<void> read_llamacpp(const Place& response, RowCollector& collector);

}  // namespace driftgate::gpu::ingest
