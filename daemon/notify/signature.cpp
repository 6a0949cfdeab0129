#include "daemon/notify/signature.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <fstream>
#include <stdexcept>

#include "daemon/base/base64.hpp"
#include "schema/failf.hpp"

namespace driftgate::notify {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::size_t kMinKeyBytes = 24;
constexpr std::size_t kMaxKeyBytes = 64;
constexpr std::size_t kMaxFileBytes = 256;

}  // namespace

schema::Result<Secret> Secret::parse(std::string_view text) {
  const auto refuse = [] {
    return schema::failf(schema::ErrorCode::invalid_argument,
                         "a webhook secret is '{}' and base64 of {} to {} random bytes: (printf {}; openssl "
                         "rand -base64 32) makes one",
                         kPrefix, kMinKeyBytes, kMaxKeyBytes, kPrefix);
  };
  if (!text.starts_with(kPrefix)) return refuse();
  auto key = base::from_base64(text.substr(kPrefix.size()));
  if (!key || key->size() < kMinKeyBytes || key->size() > kMaxKeyBytes) return refuse();
  return Secret(std::move(*key));
}

std::string Secret::sign(std::string_view message_id, std::int64_t timestamp_s, std::string_view body) const {
  const auto content = fmt::format("{}.{}.{}", message_id, timestamp_s, body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned int size = 0;
  const auto* done =
      HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(content.data()), content.size(), mac.data(), &size);
  if (done == nullptr) throw std::runtime_error("OpenSSL has no HMAC-SHA-256: check its providers");
  return "v1," + base::to_base64(std::string_view(reinterpret_cast<const char*>(mac.data()), size));
}

schema::Result<Secret> load_secret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return schema::failf(schema::ErrorCode::io, "cannot read the webhook secret file '{}'", path);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  auto secret = Secret::parse(text);
  if (!secret) return schema::wrap(secret.error(), fmt::format("webhook secret file '{}'", path));
  return secret;
}

}  // namespace driftgate::notify
