#include "daemon/net/tls_client.hpp"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "daemon/base/tls_peer.hpp"
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

std::unexpected<schema::Error> bad_file(std::string_view what, const std::string& file) {
  const bool readable = ::access(file.c_str(), R_OK) == 0;
  const std::string why = readable ? base::tls_error() : std::string(std::strerror(errno));
  return fail(readable ? ErrorCode::invalid_document : ErrorCode::io,
              fmt::format("the {} {} cannot be used: {}", what, file, why));
}

}  // namespace

struct TlsClient::Impl {
  std::unique_ptr<SSL_CTX, FreeContext> context;
  std::unique_ptr<SSL, FreeSsl> ssl;
  int fd = -1;
  std::string ca_advice{};

  schema::Result<void> load(const TlsClientFiles& files) {
    context.reset(SSL_CTX_new(TLS_client_method()));
    if (!context) return fail(ErrorCode::internal, "OpenSSL cannot start TLS: " + base::tls_error());
    TRY(base::trust_authorities(context.get(), files.ca));
    ca_advice = files.ca_advice;
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
      return fail(ErrorCode::internal, "OpenSSL cannot start TLS: " + base::tls_error());
    }
    TRY(base::expect_host(ssl.get(), host));
    for (;;) {
      ERR_clear_error();
      const int rc = SSL_connect(ssl.get());
      if (rc == 1) return {};
      const auto ready = retry(rc, deadline);
      if (ready) continue;
      const auto fault = base::certificate_fault(ssl.get(), host, ca_advice);
      if (fault) return fail(ErrorCode::forbidden, *fault);
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
        return fail(ErrorCode::unavailable, "the TLS connection failed: " + base::tls_error());
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
