#include "daemon/evidence/bundle/dsse.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/base/base64.hpp"
#include "daemon/evidence/keys/key_ids.hpp"
#include "schema/failf.hpp"
#include "schema/json.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using schema::ErrorCode;

namespace {

constexpr std::size_t kMaxEnvelopeBytes = std::size_t{4} << 20;

std::unexpected<schema::Error> malformed(std::string_view what) {
  return schema::failf(ErrorCode::invalid_document, "not a DSSE envelope: {}", what);
}

}  // namespace

std::string pre_authentication_encoding(std::string_view payload_type, std::string_view payload) {
  return fmt::format("DSSEv1 {} {} {} {}", payload_type.size(), payload_type, payload.size(), payload);
}

std::string envelope_json(const Envelope& envelope) {
  return json{{"payload", base::to_base64(envelope.payload)},
              {"payloadType", envelope.payload_type},
              {"signatures",
               json::array({{{"keyid", envelope.key_id}, {"sig", base::to_base64(envelope.signature)}}})}}
      .dump();
}

Result<Envelope> parse_envelope(std::string_view text) {
  auto parsed = TRY(schema::parse_json(text, {.bytes = kMaxEnvelopeBytes}, "the envelope"));
  const auto is_text = [](const json& object, const char* name) {
    return object.contains(name) && object.at(name).is_string();
  };
  if (!parsed.is_object() || parsed.size() != 3 || !is_text(parsed, "payload") ||
      !is_text(parsed, "payloadType") || !parsed.contains("signatures")) {
    return malformed("it must have payload, payloadType and signatures");
  }
  const json& signatures = parsed.at("signatures");
  if (!signatures.is_array() || signatures.size() != 1 || !signatures[0].is_object() ||
      signatures[0].size() != 2 || !is_text(signatures[0], "keyid") || !is_text(signatures[0], "sig")) {
    return malformed("it must have one signature with keyid and sig");
  }
  auto payload = base::from_base64(parsed.at("payload").get<std::string>());
  auto signature = base::from_base64(signatures[0].at("sig").get<std::string>());
  if (!payload || !signature) return malformed("its payload or signature is not base 64");
  return Envelope{parsed.at("payloadType").get<std::string>(), std::move(*payload),
                  signatures[0].at("keyid").get<std::string>(), std::move(*signature)};
}

Result<AttestationSigner> AttestationSigner::open(const std::string& key_file, std::string_view origin) {
  std::error_code ignored;
  if (std::filesystem::exists(key_file, ignored)) {
    auto loaded = TRY(SigningKey::load(key_file));
    return AttestationSigner(std::string(origin), std::move(loaded));
  }
  auto key = TRY(SigningKey::generate());
  TRY(key.save(key_file));
  return AttestationSigner(std::string(origin), std::move(key));
}

Result<Envelope> AttestationSigner::seal(std::string payload) const {
  auto signature = TRY(key_.sign(pre_authentication_encoding(kInTotoPayloadType, payload)));
  return Envelope{std::string(kInTotoPayloadType), std::move(payload),
                  attestation_key_id(name_, key_.public_key()), std::move(signature)};
}

}  // namespace driftgate::evidence
