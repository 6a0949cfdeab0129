#pragma once

#include <memory>

#include "daemon/net/stream.hpp"
#include "daemon/net/tls_files.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

/// What accepted connections are put under TLS with: TLS 1.2 and newer. The files are read once; new ones
/// count from the next start.
class TlsServer {
 public:
  /// `io` for a file that cannot be read, `invalid_document` for one that is not what it should be, for a key
  /// that does not fit the certificate, `invalid_argument` when one of the two is missing; the message names
  /// the file.
  [[nodiscard]] static schema::Result<std::shared_ptr<TlsServer>> load(const TlsServerFiles& files);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  [[nodiscard]] std::unique_ptr<Stream> wrap(TcpSocket socket);

 private:
  struct Impl;
  explicit TlsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::net
