#include "daemon/base/tls_peer.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "schema/failf.hpp"

namespace driftgate::base {
namespace {

using schema::ErrorCode;

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

std::string tls_error() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_peek_last_error();
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "no reason given" : std::string(text.data());
}

schema::Result<void> trust_authorities(SSL_CTX* context, const std::string& ca_file) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return {};
  }
  if (SSL_CTX_load_verify_file(context, ca_file.c_str()) == 1) return {};
  const bool readable = ::access(ca_file.c_str(), R_OK) == 0;
  const std::string why = readable ? tls_error() : std::string(std::strerror(errno));
  return schema::failf(readable ? ErrorCode::invalid_document : ErrorCode::io,
                       "the CA file {} cannot be used: {}", ca_file, why);
}

schema::Result<void> expect_host(SSL* ssl, const std::string& host) {
  const bool named = is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1
                                      : SSL_set_tlsext_host_name(ssl, host.c_str()) == 1 &&
                                            SSL_set1_host(ssl, host.c_str()) == 1;
  if (named) return {};
  return schema::failf(ErrorCode::invalid_argument, "'{}' is not a valid TLS server name", host);
}

std::optional<std::string> certificate_fault(SSL* ssl, std::string_view host, std::string_view ca_advice) {
  const long verdict = SSL_get_verify_result(ssl);
  switch (verdict) {
    case X509_V_OK:
      return std::nullopt;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return fmt::format("the certificate of {}, or one of its CAs, has expired", host);
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return fmt::format("the certificate of {}, or one of its CAs, is not valid yet", host);
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format("the certificate that {} shows is for another host", host);
    default:
      return fmt::format("the certificate of {} is not trusted: {} ({})", host,
                         X509_verify_cert_error_string(verdict), ca_advice);
  }
}

}  // namespace driftgate::base
