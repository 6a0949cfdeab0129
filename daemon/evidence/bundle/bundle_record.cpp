#include "daemon/evidence/bundle/bundle_record.hpp"

#include <algorithm>

#include "schema/failf.hpp"
#include "schema/json.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::ErrorCode;

namespace {

constexpr schema::JsonLimits kLineLimits{.bytes = kMaxBundleLine, .depth = 8, .values = 4'096};

std::unexpected<schema::Error> wrong(std::string_view name, std::string_view must_be) {
  return schema::failf(ErrorCode::invalid_document, "{} must be {}", name, must_be);
}

Result<Hash> hash_of(const json& value, std::string_view name) {
  constexpr std::string_view kMust = "64 lower-case hex digits";
  if (!value.is_string()) return wrong(name, kMust);
  const auto bytes = schema::from_hex(value.get_ref<const std::string&>());
  if (!bytes || bytes->size() != sizeof(Hash)) return wrong(name, kMust);
  Hash hash;
  std::ranges::copy(*bytes, reinterpret_cast<char*>(hash.data()));
  return hash;
}

}  // namespace

Result<BundleRecord> BundleRecord::parse(std::string_view line) {
  auto parsed = TRY(schema::parse_json(line, kLineLimits, "the line"));
  if (!parsed.is_object() || !parsed.contains("t") || !parsed.at("t").is_string()) {
    return schema::fail(ErrorCode::invalid_document, "it must be an object with t");
  }
  if (schema::canonical_json(parsed) != line) {
    return schema::fail(ErrorCode::invalid_document, "it is not in canonical form (RFC 8785)");
  }
  std::string kind = parsed.at("t").get<std::string>();
  return BundleRecord(std::move(kind), std::move(parsed));
}

Result<void> BundleRecord::expect(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (!object_.contains(name)) return wrong(name, "there");
  }
  for (const auto& member : object_.items()) {
    const bool known = member.key() == "t" || std::ranges::find(names, member.key()) != names.end();
    if (!known) return wrong(member.key().substr(0, 80), "absent: there is no such member");
  }
  return {};
}

Result<std::string> BundleRecord::text(const char* name) const {
  const json& value = object_.at(name);
  if (!value.is_string()) return wrong(name, "a string");
  return value.get<std::string>();
}

Result<std::uint64_t> BundleRecord::number(const char* name) const {
  const json& value = object_.at(name);
  if (!value.is_number_unsigned()) return wrong(name, "a whole number from 0");
  return value.get<std::uint64_t>();
}

Result<Hash> BundleRecord::hash(const char* name) const {
  return hash_of(object_.at(name), name);
}

Result<std::vector<Hash>> BundleRecord::hashes(const char* name) const {
  const json& value = object_.at(name);
  if (!value.is_array()) return wrong(name, "a list");
  std::vector<Hash> list;
  for (const json& item : value) {
    auto hash = TRY(hash_of(item, name));
    list.push_back(hash);
  }
  return list;
}

LineEnd read_line(std::istream& in, std::string& line) {
  line.clear();
  auto* buffer = in.rdbuf();
  for (int c = buffer->sbumpc(); c != std::istream::traits_type::eof(); c = buffer->sbumpc()) {
    if (c == '\n') return LineEnd::whole;
    if (line.size() >= kMaxBundleLine) return LineEnd::too_long;
    line += static_cast<char>(c);
  }
  return line.empty() ? LineEnd::none : LineEnd::cut;
}

}  // namespace driftgate::evidence
