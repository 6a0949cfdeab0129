#include "daemon/net/tls_server.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/net/response.hpp"
#include "schema/failf.hpp"

namespace driftgate::net {
namespace {

using boost::system::error_code;
using schema::ErrorCode;
using schema::fail;
namespace ssl = asio::ssl;

/// Of TLS 1.2: forward secrecy and authenticated encryption (RFC 9325, section 4.2). All of TLS 1.3 have
/// both.
constexpr const char* kSuites = "ECDHE+AESGCM:ECDHE+CHACHA20";

class TlsStream final : public LayerStream<ssl::stream<TcpSocket>> {
 public:
  using LayerStream::LayerStream;

  Awaitable<bool> open() override {
    auto [error] = co_await layer_.async_handshake(ssl::stream_base::server, kAwait);
    if (!error) co_return true;
    if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST) tell_plain_client();
    co_return false;
  }

  Awaitable<void> end_writing() override {
    auto [error] = co_await layer_.async_shutdown(kAwait);
    (void)error;
  }

  TcpSocket& socket() override { return layer_.next_layer(); }
  [[nodiscard]] bool outlives_one_end() const override { return false; }
  void write_now(std::string_view) override {}

 private:
  /// A client that speaks plain HTTP to this port reads why it is not answered.
  void tell_plain_client() {
    const Response wrong =
        plain_problem(400, "bad_request", "This port requires TLS: use https:// in the URL.");
    write_at_once(socket(), format_whole(wrong));
    error_code ignored;
    layer_.next_layer().shutdown(asio::socket_base::shutdown_send, ignored);
  }
};

std::unexpected<schema::Error> bad_file(std::string_view what, const std::string& file,
                                        const error_code& error) {
  return schema::failf(ErrorCode::invalid_document, "the {} {} cannot be used: {}", what, file,
                       error.message());
}

schema::Result<void> load_files(ssl::context& context, const TlsServerFiles& files) {
  for (const auto& [file, what] : {std::pair{&files.certificate, "certificate"}, std::pair{&files.key, "key"},
                                   std::pair{&files.client_ca, "client CA file"}}) {
    if (!file->empty() && ::access(file->c_str(), R_OK) != 0)
      return schema::failf(ErrorCode::io, "cannot read the {} {}: {}", what, *file, std::strerror(errno));
  }
  error_code error;
  context.use_certificate_chain_file(files.certificate, error);
  if (error) return bad_file("certificate", files.certificate, error);
  context.use_private_key_file(files.key, ssl::context::pem, error);
  if (error) return bad_file("key", files.key, error);
  struct stat key {};
  if (::stat(files.key.c_str(), &key) == 0 && (key.st_mode & S_IRWXO) != 0)
    return schema::failf(
        ErrorCode::forbidden,
        "everybody on this machine may use the key {} (mode {:04o}): chmod o= it, or mount a secret "
        "of Kubernetes with defaultMode: 0400",
        files.key, key.st_mode & 07777U);
  if (SSL_CTX_check_private_key(context.native_handle()) != 1)
    return schema::failf(ErrorCode::invalid_document, "the key {} does not match the certificate {}",
                         files.key, files.certificate);
  if (files.client_ca.empty()) return {};
  context.load_verify_file(files.client_ca, error);
  if (error) return bad_file("client CA file", files.client_ca, error);
  context.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  return {};
}

}  // namespace

schema::Result<TlsContext> load_tls(const TlsServerFiles& files) {
  if (files.certificate.empty() || files.key.empty())
    return fail(ErrorCode::invalid_argument,
                "TLS needs both a certificate and its key (tls.cert_file, tls.key_file)");
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  if (SSL_CTX_set_cipher_list(context->native_handle(), kSuites) != 1)
    return fail(ErrorCode::internal, "OpenSSL has none of the suites " + std::string(kSuites));
  const auto loaded = load_files(*context, files);
  ERR_clear_error();
  if (!loaded) return std::unexpected(loaded.error());
  return context;
}

schema::Result<void> check_tls(const TlsServerFiles& files) {
  if (files.any()) TRY(load_tls(files));
  return {};
}

std::unique_ptr<Stream> tls_stream(TcpSocket socket, TlsContext& context) {
  return std::make_unique<TlsStream>(std::move(socket), *context);
}

}  // namespace driftgate::net
