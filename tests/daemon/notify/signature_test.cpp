#include "daemon/notify/signature.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using driftgate::notify::load_secret;
using driftgate::notify::Secret;
using driftgate::schema::ErrorCode;

namespace {

// The example of the Standard Webhooks specification.
constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

}  // namespace

TEST_CASE("the signature is that of the specification's example") {
  const auto secret = Secret::parse(kSecret);
  REQUIRE(secret);
  CHECK(secret->sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, R"({"test": 2432232314})") ==
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST_CASE("id, time and body are each part of what is signed") {
  const auto secret = Secret::parse(kSecret);
  REQUIRE(secret);
  const auto signature = secret->sign("a", 1, "b");
  CHECK(secret->sign("a", 1, "b") == signature);
  CHECK(secret->sign("c", 1, "b") != signature);
  CHECK(secret->sign("a", 2, "b") != signature);
  CHECK(secret->sign("a", 1, "c") != signature);
}

TEST_CASE("what is no secret is refused without being repeated") {
  for (const char* text :
       {"", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"}) {
    CAPTURE(text);
    const auto secret = Secret::parse(text);
    REQUIRE_FALSE(secret);
    CHECK(secret.error().code == ErrorCode::invalid_argument);
    CHECK(secret.error().message.find("MfKQ") == std::string::npos);
  }
}

TEST_CASE("a secret file may end with a newline; one that is missing is named") {
  auto pattern = (std::filesystem::temp_directory_path() / "driftgate-secret-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  const auto path = pattern + "/ops.whsec";
  const auto missing = load_secret(path);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find(path) != std::string::npos);
  std::ofstream(path) << kSecret << "\n";
  CHECK(load_secret(path));
  std::ofstream(path) << "password\n";
  CHECK_FALSE(load_secret(path));
  std::filesystem::remove_all(pattern);
}
