#include "daemon/net/tls_server.hpp"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/net/response.hpp"

namespace driftgate::net {
namespace {

using boost::system::error_code;
using schema::ErrorCode;
using schema::fail;
namespace ssl = asio::ssl;

class TlsStream final : public Stream {
 public:
  TlsStream(TcpSocket socket, ssl::context& context) : tls_(std::move(socket), context) {}

  Awaitable<bool> open() override {
    auto [error] = co_await tls_.async_handshake(ssl::stream_base::server, kAwait);
    if (!error) co_return true;
    if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST) tell_plain_client();
    co_return false;
  }

  Awaitable<std::optional<std::size_t>> read_some(asio::mutable_buffer into) override {
    auto [error, size] = co_await tls_.async_read_some(into, kAwait);
    std::optional<std::size_t> read;
    if (!error) read = size;
    co_return read;
  }

  Awaitable<bool> write(const std::array<asio::const_buffer, 2>& bytes) override {
    auto [error, size] = co_await asio::async_write(tls_, bytes, kAwait);
    co_return !error;
  }

  Awaitable<void> end_writing() override {
    auto [error] = co_await tls_.async_shutdown(kAwait);
    (void)error;
  }

  TcpSocket& socket() override { return tls_.next_layer(); }
  void write_now(std::string_view) override {}

 private:
  /// A client that speaks plain HTTP to this port reads why it is not answered.
  void tell_plain_client() {
    const Response wrong =
        plain_problem(400, "bad_request", "This port speaks TLS: write https:// in the URL.");
    const std::string bytes = format_response_head(wrong, false) + wrong.body;
    error_code ignored;
    tls_.next_layer().non_blocking(true, ignored);
    tls_.next_layer().write_some(asio::buffer(bytes), ignored);
    tls_.next_layer().shutdown(asio::socket_base::shutdown_send, ignored);
  }

  ssl::stream<TcpSocket> tls_;
};

schema::Result<void> readable(const std::string& file, std::string_view what) {
  if (::access(file.c_str(), R_OK) == 0) return {};
  return fail(ErrorCode::io, fmt::format("cannot read the {} {}: {}", what, file, std::strerror(errno)));
}

std::unexpected<schema::Error> bad_file(std::string_view what, const std::string& file,
                                        const error_code& error) {
  return fail(ErrorCode::invalid_document,
              fmt::format("{} {} cannot be used: {}", what, file, error.message()));
}

}  // namespace

struct TlsServer::Impl {
  ssl::context context{ssl::context::tls_server};

  schema::Result<void> load(const TlsServerFiles& files) {
    SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_session_cache_mode(context.native_handle(), SSL_SESS_CACHE_OFF);
    for (const auto& [file, what] :
         {std::pair{&files.certificate, "certificate"}, std::pair{&files.key, "key"},
          std::pair{&files.client_ca, "client CA file"}}) {
      const auto found = file->empty() ? schema::Result<void>{} : readable(*file, what);
      if (!found) return found;
    }
    error_code error;
    context.use_certificate_chain_file(files.certificate, error);
    if (error) return bad_file("the certificate", files.certificate, error);
    context.use_private_key_file(files.key, ssl::context::pem, error);
    if (error) return bad_file("the key", files.key, error);
    if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
      return fail(ErrorCode::invalid_document,
                  fmt::format("the key {} is not that of the certificate {}", files.key, files.certificate));
    }
    if (files.client_ca.empty()) return {};
    context.load_verify_file(files.client_ca, error);
    if (error) return bad_file("the client CA file", files.client_ca, error);
    context.set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
    return {};
  }
};

TlsServer::TlsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsServer::~TlsServer() = default;

schema::Result<std::shared_ptr<TlsServer>> TlsServer::load(const TlsServerFiles& files) {
  if (files.certificate.empty() || files.key.empty()) {
    return fail(ErrorCode::invalid_argument,
                "TLS needs both a certificate and its key (tls.cert_file, tls.key_file)");
  }
  auto impl = std::make_unique<Impl>();
  const auto loaded = impl->load(files);
  ERR_clear_error();
  if (!loaded) return std::unexpected(loaded.error());
  return std::shared_ptr<TlsServer>(new TlsServer(std::move(impl)));
}

std::unique_ptr<Stream> TlsServer::wrap(TcpSocket socket) {
  return std::make_unique<TlsStream>(std::move(socket), impl_->context);
}

}  // namespace driftgate::net
