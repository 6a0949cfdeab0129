#pragma once

#include <memory>
#include <string>

#include "daemon/route/asio_types.hpp"
#include "daemon/route/relay/wire.hpp"
#include "schema/error.hpp"

// OpenSSL's types, as its headers declare them.
typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace driftgate::route {

/// Whom a TLS connection to an engine trusts. Shared by threads.
using TlsTrust = std::shared_ptr<SSL_CTX>;

/// The CAs of a file (PEM), the system's list when it is empty. `io`, `invalid_document`.
[[nodiscard]] schema::Result<TlsTrust> load_trust(const std::string& ca_file);

/// TLS over a connected socket, with what wire.hpp has for a plain one. Closing the socket ends what waits.
/// OpenSSL writes without MSG_NOSIGNAL: the process ignores SIGPIPE.
class UpstreamTls {
 public:
  /// `socket` outlives it.
  UpstreamTls(TcpSocket& socket, TlsTrust trust);
  ~UpstreamTls();
  UpstreamTls(const UpstreamTls&) = delete;
  UpstreamTls& operator=(const UpstreamTls&) = delete;

  /// Shakes hands with the server, whose certificate must name `host`. Why that failed; empty when it did
  /// not.
  Task<std::string> open(const std::string& host);
  /// As send_now(). What it left must come again, unchanged.
  [[nodiscard]] Sent send(Pieces& pieces);
  /// What send() left; false when the engine does not take it.
  Task<bool> send_rest(Pieces pieces);
  /// Takes all that has come into `into`: nothing that the socket does not show is left behind.
  [[nodiscard]] Arrival receive(std::string& into);
  [[nodiscard]] const TlsTrust& trust() const { return trust_; }

 private:
  TcpSocket& socket_;
  const TlsTrust trust_;
  SSL* const ssl_;
};

}  // namespace driftgate::route
