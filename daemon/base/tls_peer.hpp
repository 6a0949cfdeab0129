#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

// OpenSSL's types, as its headers declare them.
typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

// What every TLS client of driftgate demands of the server it talks to.
namespace driftgate::base {

/// The newest reason in OpenSSL's queue of errors, which is emptied.
[[nodiscard]] std::string tls_error();

/// TLS 1.2 and newer, with servers that the CAs of `ca_file` (PEM) vouch for; the system's list when it is
/// empty. `io` for a file that cannot be read, `invalid_document` for one without certificates.
[[nodiscard]] schema::Result<void> trust_authorities(SSL_CTX* context, const std::string& ca_file);

/// The certificate of the server must name `host`, a name or an address. `invalid_argument` for what is
/// neither.
[[nodiscard]] schema::Result<void> expect_host(SSL* ssl, const std::string& host);

/// What is wrong with the certificate that the server of `host` showed; nothing when a handshake failed for
/// another reason. `ca_advice` says how another CA is given.
[[nodiscard]] std::optional<std::string> certificate_fault(SSL* ssl, std::string_view host,
                                                           std::string_view ca_advice);

}  // namespace driftgate::base
