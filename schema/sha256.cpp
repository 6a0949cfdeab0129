#include "schema/sha256.hpp"

#include <openssl/evp.h>

#include <stdexcept>

namespace driftgate::schema {

namespace {

/// Fetching once is about twice as fast as the implicit fetch of EVP_sha256 for short messages.
const EVP_MD* fetched_sha256() {
  static const EVP_MD* const digest = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (digest == nullptr)
    throw std::runtime_error("OpenSSL has no SHA-256: check its providers (openssl.cnf)");
  return digest;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

constexpr std::string_view kDigestPrefix = "sha256:";

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();

  Context() { begin(); }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  void begin() {
    if (evp == nullptr || EVP_DigestInit_ex2(evp, fetched_sha256(), nullptr) != 1) {
      throw std::runtime_error("OpenSSL cannot begin a SHA-256 digest");
    }
  }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::string_view bytes) {
  if (EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) != 1) {
    throw std::runtime_error("OpenSSL cannot continue a SHA-256 digest");
  }
  return *this;
}

Sha256& Sha256::update(std::span<const std::uint8_t> bytes) {
  return update(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Sha256Bytes Sha256::finish() {
  Sha256Bytes digest;
  if (EVP_DigestFinal_ex(context_->evp, digest.data(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL cannot finish a SHA-256 digest");
  }
  context_->begin();
  return digest;
}

Sha256Bytes sha256(std::string_view bytes) {
  thread_local Sha256 digest;
  return digest.update(bytes).finish();
}

std::string digest_text(const Sha256Bytes& digest) {
  return std::string(kDigestPrefix) + to_hex(digest);
}

std::string sha256_digest(std::string_view bytes) {
  return digest_text(sha256(bytes));
}

Result<Sha256Bytes> parse_digest(std::string_view text) {
  Sha256Bytes digest{};
  const auto bytes = text.starts_with(kDigestPrefix) ? from_hex(text.substr(kDigestPrefix.size()))
                                                     : Result<std::string>(std::string());
  if (!bytes || bytes->size() != digest.size()) {
    return fail(ErrorCode::invalid_argument,
                "'" + std::string(text.substr(0, 80)) +
                    "' is no digest: write sha256: and 64 lower-case hexadecimal digits");
  }
  for (std::size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<std::uint8_t>((*bytes)[i]);
  return digest;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Result<std::string> from_hex(std::string_view hex) {
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const int high = hex_value(hex[i]);
    const int low = hex_value(hex[i + 1]);
    if (high < 0 || low < 0) break;
    bytes += static_cast<char>(16 * high + low);
  }
  if (2 * bytes.size() != hex.size()) {
    return fail(ErrorCode::invalid_argument, "not an even number of lower-case hexadecimal digits");
  }
  return bytes;
}

std::string_view as_chars(const Sha256Bytes& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace driftgate::schema
