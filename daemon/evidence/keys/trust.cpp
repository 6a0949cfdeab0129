#include "daemon/evidence/keys/trust.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "daemon/base/base64.hpp"
#include "schema/json.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::ErrorCode;

namespace {

constexpr std::array<std::string_view, 6> kMembers = {"use",       "name",    "key",
                                                      "from_size", "from_us", "until_us"};
constexpr std::size_t kMaxNameBytes = 200;

std::unexpected<schema::Error> refuse(const std::string& what, const std::string& where) {
  return schema::fail(ErrorCode::invalid_document, "not a trust file: " + what, where);
}

Result<std::uint64_t> read_number(const json& value, const std::string& where) {
  if (!value.is_number_unsigned()) return refuse("it must be a whole number from 0", where);
  return value.get<std::uint64_t>();
}

Result<void> read_times(const json& item, const std::string& at, TrustedKey& key) {
  for (const char* name : {"from_size", "from_us", "until_us"}) {
    if (!item.contains(name)) continue;
    const auto number = TRY(read_number(item.at(name), at + "/" + name));
    if (std::string_view(name) == "from_size") {
      key.from_size = number;
    } else if (std::string_view(name) == "from_us") {
      key.from_us = static_cast<std::int64_t>(number);
    } else {
      key.until_us = static_cast<std::int64_t>(number);
    }
  }
  if (!item.contains("from_us")) return refuse("from_us is missing", at);
  return {};
}

Result<TrustedKey> read_key(const json& item, const std::string& at) {
  if (!item.is_object()) return refuse("a key must be an object", at);
  for (const auto& member : item.items()) {
    if (std::ranges::find(kMembers, member.key()) == kMembers.end()) {
      return refuse("a key has no such member", at + "/" + schema::pointer_token(member.key()));
    }
  }
  const auto text = [&](const char* name) {
    return item.contains(name) && item.at(name).is_string() ? item.at(name).get<std::string>()
                                                            : std::string();
  };
  TrustedKey key;
  const std::string use = text("use");
  if (use != "head" && use != "attestation") return refuse("use must be head or attestation", at + "/use");
  key.use = use == "head" ? KeyUse::head : KeyUse::attestation;
  key.name = text("name");
  const bool clean =
      std::ranges::none_of(key.name, [](char c) { return c == '+' || static_cast<unsigned char>(c) <= ' '; });
  if (key.name.empty() || key.name.size() > kMaxNameBytes || !clean) {
    return refuse("name must be 1 to 200 bytes without spaces and '+'", at + "/name");
  }
  const auto bytes = base::from_base64(text("key"));
  if (!bytes || bytes->size() != key.key.size()) {
    return refuse("key must be the base 64 of the 32 bytes of an Ed25519 public key", at + "/key");
  }
  std::ranges::copy(*bytes, reinterpret_cast<char*>(key.key.data()));
  TRY(read_times(item, at, key));
  return key;
}

}  // namespace

std::string_view to_string(KeyUse use) {
  return use == KeyUse::head ? "head" : "attestation";
}

Result<TrustFile> parse_trust(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {.bytes = kMaxTrustBytes}, "the trust file"));
  if (!parsed.is_object() || parsed.size() != 2 || parsed.value("v", json()) != 1 ||
      !parsed.value("keys", json()).is_array()) {
    return refuse("it must be {\"v\": 1, \"keys\": [...]}", "");
  }
  const json& list = parsed.at("keys");
  if (list.empty() || list.size() > kMaxTrustedKeys) {
    return refuse(fmt::format("it must hold 1 to {} keys", kMaxTrustedKeys), "/keys");
  }
  TrustFile trust;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("/keys/{}", i);
    auto key = TRY(read_key(list[i], at));
    if (std::ranges::any_of(trust.keys, [&](const TrustedKey& other) { return other.key == key.key; })) {
      return refuse("the same key twice: each use needs a key of its own", at + "/key");
    }
    trust.keys.push_back(std::move(key));
  }
  return trust;
}

std::string trust_json(const TrustFile& trust) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TrustedKey& key : trust.keys) {
    const std::string_view bytes(reinterpret_cast<const char*>(key.key.data()), key.key.size());
    nlohmann::ordered_json item{
        {"use", to_string(key.use)}, {"name", key.name}, {"key", base::to_base64(bytes)}};
    if (key.use == KeyUse::head) item["from_size"] = key.from_size;
    item["from_us"] = key.from_us;
    if (key.until_us) item["until_us"] = *key.until_us;
    list.push_back(std::move(item));
  }
  return nlohmann::ordered_json{{"v", 1}, {"keys", std::move(list)}}.dump(2) + "\n";
}

std::vector<TrustedKey> head_keys_at(const TrustFile& trust, std::string_view name, std::uint64_t size) {
  std::vector<TrustedKey> found;
  for (const TrustedKey& key : trust.keys) {
    if (key.use == KeyUse::head && key.name == name && key.from_size <= size) found.push_back(key);
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &TrustedKey::from_size);
  // Those that the newest one replaced before this size are out; at its own size both may have signed.
  std::size_t kept = found.empty() ? 0 : 1;
  while (kept < found.size() && (found[kept - 1].from_size == size)) ++kept;
  found.resize(kept);
  return found;
}

std::string key_id_text(std::string_view name, const PublicKey& key) {
  return fmt::format("{}+{:08x}", name, key_id(name, key));
}

}  // namespace driftgate::evidence
