#pragma once

#include <string>

#include "schema/error.hpp"

namespace driftgate::net {

/// PEM files of a server's TLS.
struct TlsServerFiles {
  std::string certificate{};  ///< the chain, leaf first
  std::string key{};
  std::string client_ca{};  ///< empty: clients need no certificate
  [[nodiscard]] bool any() const { return !certificate.empty() || !key.empty() || !client_ca.empty(); }
};

/// That a server can be started with these files, if there are any: the errors of its start.
[[nodiscard]] schema::Result<void> check_tls(const TlsServerFiles& files);

/// PEM files of a client's TLS.
struct TlsClientFiles {
  std::string ca{};           ///< whom to trust; empty: the system's list
  std::string certificate{};  ///< empty: none is shown
  std::string key{};
  std::string ca_advice{"--ca FILE names another CA"};  ///< behind the news that a certificate is not trusted
};

}  // namespace driftgate::net
