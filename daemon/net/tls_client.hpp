#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/net/tls_files.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

class Deadline;

/// TLS 1.2 and newer over a connected, non-blocking socket, which it does not own. The server's certificate
/// must be trusted and name the host or address that was asked for.
class TlsClient {
 public:
  /// Shakes hands. `io` or `invalid_document` for the files, `forbidden` for a certificate that is not
  /// trusted, `unavailable` for a peer that is gone or speaks no TLS, `deadline_exceeded`.
  [[nodiscard]] static schema::Result<std::unique_ptr<TlsClient>> connect(int fd, const std::string& host,
                                                                          const TlsClientFiles& files,
                                                                          const Deadline& deadline);
  ~TlsClient();

  schema::Result<void> write(std::string_view bytes, const Deadline& deadline);
  /// At least one byte; 0 at the end of the stream.
  schema::Result<std::size_t> read(char* buffer, std::size_t size, const Deadline& deadline);

 private:
  struct Impl;
  explicit TlsClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::net
