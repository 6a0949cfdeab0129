#include "daemon/base/tls_peer.hpp"

#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include <memory>

using namespace driftgate;
using schema::ErrorCode;

namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

}  // namespace

TEST_CASE("nothing older than TLS 1.2 is spoken, and every server's certificate is checked") {
  const Context context(SSL_CTX_new(TLS_client_method()));
  REQUIRE(base::trust_authorities(context.get(), ""));
  CHECK(SSL_CTX_get_min_proto_version(context.get()) == TLS1_2_VERSION);
  CHECK((SSL_CTX_get_verify_mode(context.get()) & SSL_VERIFY_PEER) != 0);
}

TEST_CASE("a CA file that cannot be used is named") {
  const Context context(SSL_CTX_new(TLS_client_method()));
  const auto missing = base::trust_authorities(context.get(), "/nowhere/ca.pem");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::io);
  CHECK(missing.error().message.find("/nowhere/ca.pem") != std::string::npos);
  const auto wrong = base::trust_authorities(context.get(), "CHANGELOG.md");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::invalid_document);
}
