#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/evidence/keys/signed_note.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

constexpr std::size_t kSignatureBytes = 64;
constexpr std::size_t kMaxPemBytes = 4'096;

struct FreePkey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Pkey = std::unique_ptr<EVP_PKEY, FreePkey>;
using Bio = std::unique_ptr<BIO, FreeBio>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// The text of a small file that nobody else may read.
Result<std::string> read_secret(const std::string& path) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return schema::failf(ErrorCode::io, "cannot open the key {}: {}", path, std::strerror(errno));
  struct stat status {};
  std::string text(kMaxPemBytes, '\0');
  const bool known = ::fstat(file.get(), &status) == 0;
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (!known || size < 0) return schema::failf(ErrorCode::io, "cannot read the key {}", path);
  if ((status.st_mode & 077) != 0) {
    return schema::failf(
        ErrorCode::forbidden,
        "others may read the key {}: chmod 600 it, or mount a secret of Kubernetes with defaultMode: 0400",
        path);
  }
  text.resize(static_cast<std::size_t>(size));
  return text;
}

/// The password callback: without it OpenSSL would ask for a password on the terminal.
int no_password(char*, int, int, void*) {
  return -1;
}

}  // namespace

struct SigningKey::Key {
  Pkey pkey;
};

SigningKey::SigningKey(std::unique_ptr<Key> key) : key_(std::move(key)) {}
SigningKey::~SigningKey() = default;
SigningKey::SigningKey(SigningKey&&) noexcept = default;
SigningKey& SigningKey::operator=(SigningKey&&) noexcept = default;

Result<SigningKey> SigningKey::generate() {
  Pkey pkey(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (!pkey) return schema::fail(ErrorCode::internal, "OpenSSL cannot generate an Ed25519 key");
  return SigningKey(std::make_unique<Key>(Key{std::move(pkey)}));
}

Result<SigningKey> SigningKey::load(const std::string& path) {
  auto pem = TRY(read_secret(path));
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Pkey pkey(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr) : nullptr);
  OPENSSL_cleanse(pem.data(), pem.size());
  if (!pkey || EVP_PKEY_is_a(pkey.get(), "ED25519") != 1) {
    return schema::failf(ErrorCode::corrupt, "{} is not a PKCS #8 PEM file of an Ed25519 key", path);
  }
  return SigningKey(std::make_unique<Key>(Key{std::move(pkey)}));
}

Result<void> SigningKey::save(const std::string& path) const {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PKCS8PrivateKey(bio.get(), key_->pkey.get(), nullptr, nullptr, 0, nullptr,
                                            nullptr) != 1) {
    return schema::fail(ErrorCode::internal, "OpenSSL cannot write an Ed25519 key");
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return base::write_file_durably(path, std::string_view(text, static_cast<std::size_t>(size)), 0600,
                                  base::IfPresent::refuse);
}

PublicKey SigningKey::public_key() const {
  PublicKey key{};
  std::size_t size = key.size();
  if (EVP_PKEY_get_raw_public_key(key_->pkey.get(), key.data(), &size) != 1 || size != key.size()) {
    throw std::runtime_error("OpenSSL cannot give the public part of an Ed25519 key");
  }
  return key;
}

Result<std::string> SigningKey::sign(std::string_view message) const {
  const Context context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  std::size_t size = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_->pkey.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     bytes_of(message), message.size()) != 1 ||
      size != kSignatureBytes) {
    return schema::fail(ErrorCode::internal, "OpenSSL cannot sign with an Ed25519 key");
  }
  return signature;
}

bool verify_signature(const PublicKey& key, std::string_view message, std::string_view signature) {
  if (signature.size() != kSignatureBytes) return false;
  const Pkey pkey(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
  const Context context(EVP_MD_CTX_new());
  return pkey && context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, pkey.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(message),
                          message.size()) == 1;
}

}  // namespace driftgate::evidence
