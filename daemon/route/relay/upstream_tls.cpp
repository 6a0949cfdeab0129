#include "daemon/route/relay/upstream_tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "daemon/base/tls_peer.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr std::string_view kCaAdvice = "register the engine with --ca-file if it has a CA of its own";
constexpr std::size_t kRecordBytes = 16u << 10;  ///< of one record of TLS

/// The first bytes of the pieces together, so that a head and a small body go as one record.
std::size_t gather(const Pieces& pieces, std::array<char, kRecordBytes>& into) {
  std::size_t size = 0;
  for (const auto& piece : pieces) {
    const auto part = piece.substr(0, into.size() - size);
    std::ranges::copy(part, into.data() + size);
    size += part.size();
  }
  return size;
}

void drop_sent(Pieces& pieces, std::size_t sent) {
  for (auto& piece : pieces) {
    const auto taken = std::min(piece.size(), sent);
    piece.remove_prefix(taken);
    sent -= taken;
  }
}

}  // namespace

schema::Result<TlsTrust> load_trust(const std::string& ca_file) {
  TlsTrust trust(SSL_CTX_new(TLS_client_method()), [](SSL_CTX* context) { SSL_CTX_free(context); });
  if (trust == nullptr)
    return schema::failf(schema::ErrorCode::internal, "OpenSSL cannot start TLS: {}", base::tls_error());
  SSL_CTX_set_mode(trust.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const auto loaded = base::trust_authorities(trust.get(), ca_file);
  ERR_clear_error();
  if (!loaded) return std::unexpected(loaded.error());
  return trust;
}

UpstreamTls::UpstreamTls(TcpSocket& socket, TlsTrust trust)
    : socket_(socket), trust_(std::move(trust)), ssl_(SSL_new(trust_.get())) {
  boost::system::error_code ignored;
  socket_.native_non_blocking(true, ignored);
}

UpstreamTls::~UpstreamTls() {
  SSL_free(ssl_);
}

Task<std::string> UpstreamTls::open(const std::string& host) {
  if (ssl_ == nullptr || SSL_set_fd(ssl_, socket_.native_handle()) != 1) co_return base::tls_error();
  const auto expected = base::expect_host(ssl_, host);
  if (!expected) co_return expected.error().describe();
  for (;;) {
    ERR_clear_error();
    const int done = SSL_connect(ssl_);
    if (done == 1) co_return std::string();
    const int wants = SSL_get_error(ssl_, done);
    if (wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE) {
      auto fault = base::certificate_fault(ssl_, host, kCaAdvice);
      auto reason = base::tls_error();
      co_return fault ? *fault : reason;
    }
    const auto direction = wants == SSL_ERROR_WANT_READ ? TcpSocket::wait_read : TcpSocket::wait_write;
    auto [failure] = co_await socket_.async_wait(direction, kAwait);
    if (failure) co_return failure.message();
  }
}

Sent UpstreamTls::send(Pieces& pieces) {
  if (!socket_.is_open()) return Sent::failed;
  std::array<char, kRecordBytes> record;
  for (;;) {
    const auto size = gather(pieces, record);
    if (size == 0) return Sent::all;
    ERR_clear_error();
    const int sent = SSL_write(ssl_, record.data(), static_cast<int>(size));
    if (sent > 0) {
      drop_sent(pieces, static_cast<std::size_t>(sent));
      continue;
    }
    const int wants = SSL_get_error(ssl_, sent);
    return wants == SSL_ERROR_WANT_WRITE || wants == SSL_ERROR_WANT_READ ? Sent::part : Sent::failed;
  }
}

Task<bool> UpstreamTls::send_rest(Pieces pieces) {
  for (;;) {
    auto [failure] = co_await socket_.async_wait(TcpSocket::wait_write, kAwait);
    if (failure) co_return false;
    const Sent sent = send(pieces);
    if (sent != Sent::part) co_return sent == Sent::all;
  }
}

/// Until OpenSSL holds nothing more: what it has decrypted already makes no socket readable.
Arrival UpstreamTls::receive(std::string& into) {
  if (!socket_.is_open()) return Arrival::failure;
  std::array<char, kRecordBytes> record;
  std::size_t total = 0;
  for (;;) {
    ERR_clear_error();
    const int got = SSL_read(ssl_, record.data(), static_cast<int>(record.size()));
    if (got > 0) {
      into.append(record.data(), static_cast<std::size_t>(got));
      total += static_cast<std::size_t>(got);
      if (total < kMaxReceived || SSL_pending(ssl_) > 0) continue;
      return Arrival::bytes;
    }
    const int wants = SSL_get_error(ssl_, got);
    const bool ends = wants == SSL_ERROR_ZERO_RETURN;
    if (total > 0) {
      // The end was read with the bytes before it: the socket shows it again to who waits for more.
      boost::system::error_code ignored;
      if (ends) socket_.shutdown(TcpSocket::shutdown_receive, ignored);
      return Arrival::bytes;
    }
    if (ends) return Arrival::end;
    return wants == SSL_ERROR_WANT_READ || wants == SSL_ERROR_WANT_WRITE ? Arrival::nothing
                                                                         : Arrival::failure;
  }
}

}  // namespace driftgate::route
