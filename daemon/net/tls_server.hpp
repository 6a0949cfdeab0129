#pragma once

#include <memory>

#include "daemon/net/stream.hpp"
#include "daemon/net/tls_files.hpp"
#include "schema/error.hpp"

namespace boost::asio::ssl {
class context;
}

namespace driftgate::net {

/// TLS 1.2 and newer for accepted connections; null for plain HTTP.
using TlsContext = std::shared_ptr<asio::ssl::context>;

/// Reads the files once; changed files take effect at the next start. `io` for a file that cannot be read,
/// `invalid_document` for one with the wrong contents and for a key that does not match the certificate,
/// `invalid_argument` when one of the two is missing; the message names the file.
[[nodiscard]] schema::Result<TlsContext> load_tls(const TlsServerFiles& files);

/// The connection under TLS.
[[nodiscard]] std::unique_ptr<Stream> tls_stream(TcpSocket socket, TlsContext& context);

}  // namespace driftgate::net
