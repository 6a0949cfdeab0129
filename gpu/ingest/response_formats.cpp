#include "gpu/ingest/response_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gpu/capture/capture_modes.hpp"
#include "schema/json.hpp"

namespace driftgate::gpu::ingest {

using nlohmann::json;
using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::string_view kTokenPrefix = "token_id:";

}  // namespace

std::optional<std::int64_t> id_in(std::string_view digits) {
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stopped != end || value < 0 || value >= kEndOfIds) return std::nullopt;
  return value;
}

std::optional<Place> Place::find(const char* name) const {
  if (!value.is_object()) return std::nullopt;
  const auto found = value.find(name);
  if (found == value.end() || found->is_null()) return std::nullopt;
  return Place{*found, pointer + "/" + schema::pointer_token(name)};
}

Place Place::at(std::size_t index) const {
  return {value[index], fmt::format("{}/{}", pointer, index)};
}

bool Place::is_array() const {
  return value.is_array();
}
bool Place::is_null() const {
  return value.is_null();
}
std::size_t Place::size() const {
  return value.size();
}

std::optional<std::int64_t> TokenMap::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  if (text.starts_with(kTokenPrefix)) return id_in(text.substr(kTokenPrefix.size()));
  return std::nullopt;
}

std::unexpected<schema::Error> RowCollector::fail(const Place& place, const std::string& what) const {
  return schema::fail(
      ErrorCode::invalid_document,
      fmt::format("{}: {} {}", name_, place.pointer.empty() ? "the response" : place.pointer, what));
}

Result<void> RowCollector::keep(EngineRow row) {
  if (!row.logprob && row.list.empty()) return {};
  std::vector<std::int64_t> ids;
  for (const ListedToken& token : row.list) ids.push_back(token.id);
  std::ranges::sort(ids);
  if (const auto twice = std::ranges::adjacent_find(ids); twice != ids.end()) {
    return schema::fail(ErrorCode::invalid_document,
                        fmt::format("{}: position {} of sequence {} lists token {} twice", name_,
                                    row.position, row.sequence, *twice));
  }
  if (out_.rows.size() == kMaxRows) {
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("{}: more than {} rows; import it in parts", name_, kMaxRows));
  }
  out_.rows.push_back(std::move(row));
  return {};
}

void RowCollector::leave_out(const Place& response) {
  (void)next_sequence();
  if (out_.incomplete++ > 0) return;
  out_.first_incomplete = response.pointer.empty() ? name_ : fmt::format("{}: {}", name_, response.pointer);
}

Result<std::optional<float>> RowCollector::logprob(const Place& place) const {
  if (place.is_null()) return std::nullopt;
  const auto value = schema::number_from_json(place.value);
  if (!value) return fail(place, "is not a log-probability: a number or null is needed");
  if (std::isnan(*value) || *value == HUGE_VAL) return std::optional<float>(NAN);
  if (is_unknown_logprob(*value)) return std::nullopt;
  return static_cast<float>(*value);
}

Result<std::int64_t> RowCollector::id(const Place& place) const {
  if (place.value.is_number_integer()) {
    const auto value = place.value.get<std::int64_t>();
    if (value >= 0 && value < kEndOfIds) return value;
  }
  return fail(place, "is not a token id: an integer from 0 to 2147483647 is needed");
}

Result<std::int64_t> RowCollector::id_of_text(const Place& place) const {
  if (!place.value.is_string()) return fail(place, "is not a token: its text is needed");
  return id_of_text(place.value.get_ref<const std::string&>(), place);
}

Result<std::int64_t> RowCollector::id_of_text(std::string_view text, const Place& place) const {
  if (const auto known = options_.tokens.find(text)) return *known;
  constexpr std::size_t kShown = 40;
  return fail(
      place,
      fmt::format(
          "names the token {} by its text, and this format contains no ids: {}",
          json(std::string(text.substr(0, kShown))).dump(-1, ' ', true, json::error_handler_t::replace),
          options_.tokens.empty() ? "give a token map (--token-map), or have vLLM return tokens as token "
                                    "ids (return_tokens_as_token_ids)"
                                  : "the token map does not contain it"));
}

Result<void> RowCollector::list(std::int64_t id, const Place& logprob_place, EngineRow& row) const {
  const auto value = TRY(logprob(logprob_place));
  if (!value) return {};
  if (row.list.size() == kMaxListed)
    return fail(logprob_place, "exceeds the limit of 16384 tokens in a list");
  row.list.push_back({id, *value});
  return {};
}

}  // namespace driftgate::gpu::ingest
