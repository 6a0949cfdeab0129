#include "daemon/net/tls_client.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "daemon/net/socket.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

using schema::ErrorCode;
using schema::fail;

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

std::string library_error() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_peek_last_error();
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "no reason given" : std::string(text.data());
}

std::unexpected<schema::Error> bad_file(std::string_view what, const std::string& file) {
  const bool readable = ::access(file.c_str(), R_OK) == 0;
  const std::string why = readable ? library_error() : std::string(std::strerror(errno));
  return fail(readable ? ErrorCode::invalid_document : ErrorCode::io,
              fmt::format("the {} {} cannot be used: {}", what, file, why));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

struct TlsClient::Impl {
  std::unique_ptr<SSL_CTX, FreeContext> context;
  std::unique_ptr<SSL, FreeSsl> ssl;
  int fd = -1;

  schema::Result<void> load(const TlsClientFiles& files) {
    context.reset(SSL_CTX_new(TLS_client_method()));
    if (!context) return fail(ErrorCode::internal, "OpenSSL cannot start TLS: " + library_error());
    SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    if (files.ca.empty()) {
      SSL_CTX_set_default_verify_paths(context.get());
    } else if (SSL_CTX_load_verify_file(context.get(), files.ca.c_str()) != 1) {
      return bad_file("CA file", files.ca);
    }
    if (!files.certificate.empty() &&
        SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
      return bad_file("certificate", files.certificate);
    }
    if (!files.key.empty() &&
        SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      return bad_file("key", files.key);
    }
    return {};
  }

  schema::Result<void> shake_hands(const std::string& host, const Deadline& deadline) {
    ssl.reset(SSL_new(context.get()));
    if (!ssl || SSL_set_fd(ssl.get(), fd) != 1) {
      return fail(ErrorCode::internal, "OpenSSL cannot start TLS: " + library_error());
    }
    X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl.get());
    const bool named = is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1
                                        : SSL_set_tlsext_host_name(ssl.get(), host.c_str()) == 1 &&
                                              SSL_set1_host(ssl.get(), host.c_str()) == 1;
    if (!named)
      return schema::failf(ErrorCode::invalid_argument, "'{}' is not a valid TLS server name", host);
    for (;;) {
      ERR_clear_error();
      const int rc = SSL_connect(ssl.get());
      if (rc == 1) return {};
      const auto ready = retry(rc, deadline);
      if (ready) continue;
      const long verdict = SSL_get_verify_result(ssl.get());
      if (verdict != X509_V_OK)
        return schema::failf(ErrorCode::forbidden, "the certificate of {} is not trusted: {} (--ca FILE)",
                             host, X509_verify_cert_error_string(verdict));
      return ready;
    }
  }

  /// Waits for what an operation that gave `rc` needs; an error when it has failed.
  schema::Result<void> retry(int rc, const Deadline& deadline) {
    switch (SSL_get_error(ssl.get(), rc)) {
      case SSL_ERROR_WANT_READ:
        return wait_for(fd, POLLIN, deadline);
      case SSL_ERROR_WANT_WRITE:
        return wait_for(fd, POLLOUT, deadline);
      default:
        return fail(ErrorCode::unavailable, "the TLS connection failed: " + library_error());
    }
  }
};

TlsClient::TlsClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsClient::~TlsClient() = default;

schema::Result<std::unique_ptr<TlsClient>> TlsClient::connect(int fd, const std::string& host,
                                                              const TlsClientFiles& files,
                                                              const Deadline& deadline) {
  auto impl = std::make_unique<Impl>();
  impl->fd = fd;
  TRY(impl->load(files));
  TRY(impl->shake_hands(host, deadline));
  return std::unique_ptr<TlsClient>(new TlsClient(std::move(impl)));
}

schema::Result<void> TlsClient::write(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    ERR_clear_error();
    const int rc = SSL_write(impl_->ssl.get(), bytes.data(),
                             static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX)));
    if (rc > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(rc));
      continue;
    }
    TRY(impl_->retry(rc, deadline));
  }
  return {};
}

schema::Result<std::size_t> TlsClient::read(char* buffer, std::size_t size, const Deadline& deadline) {
  for (;;) {
    ERR_clear_error();
    const int rc = SSL_read(impl_->ssl.get(), buffer, static_cast<int>(std::min<std::size_t>(size, INT_MAX)));
    if (rc > 0) return static_cast<std::size_t>(rc);
    if (SSL_get_error(impl_->ssl.get(), rc) == SSL_ERROR_ZERO_RETURN) return std::size_t{0};
    TRY(impl_->retry(rc, deadline));
  }
}

}  // namespace driftgate::net
