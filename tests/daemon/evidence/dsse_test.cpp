#include "daemon/evidence/bundle/dsse.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "daemon/evidence/keys/key_ids.hpp"
#include "daemon/evidence/keys/trust.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::store::testing;

TEST_CASE("what is signed is the encoding of the DSSE specification's example") {
  CHECK(pre_authentication_encoding("http://example.com/HelloWorld", "hello world") ==
        "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  CHECK(pre_authentication_encoding("", "") == "DSSEv1 0  0 ");
}

TEST_CASE("a sealed statement reads back, and its signature is by the key that its id names") {
  TempDir dir;
  const std::string path = (dir.path() / "attestation.key").string();
  const auto signer = must(AttestationSigner::open(path, "example.org/log"));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto envelope = must(signer.seal(R"({"a":1})"));
  CHECK(envelope.key_id == attestation_key_id("example.org/log", signer.public_key()));
  CHECK(envelope.key_id.size() == 64);
  CHECK(envelope.key_id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(key_id_text("example.org/log", signer.public_key()) ==
        "example.org/log+" + envelope.key_id.substr(0, 8));
  CHECK(must(parse_envelope(envelope_json(envelope))) == envelope);
  const auto text = pre_authentication_encoding(envelope.payload_type, envelope.payload);
  CHECK(verify_signature(signer.public_key(), text, envelope.signature));
  CHECK(!verify_signature(signer.public_key(), envelope.payload, envelope.signature));
  CHECK(must(AttestationSigner::open(path, "example.org/log")).public_key() == signer.public_key());
}

TEST_CASE("a key is named by its digest, and in older envelopes by its name and the first digits") {
  TempDir dir;
  const auto signer =
      must(AttestationSigner::open((dir.path() / "attestation.key").string(), "example.org/log"));
  const auto key = signer.public_key();
  const std::string id = attestation_key_id("example.org/log", key);
  CHECK(names_key(id, "example.org/log", key));
  CHECK(names_key("example.org/log+" + id.substr(0, 8), "example.org/log", key));
  for (const std::string& other : {std::string(), id.substr(0, 8), id + "0", "other+" + id.substr(0, 8)}) {
    CAPTURE(other);
    CHECK(!names_key(other, "example.org/log", key));
  }
  CHECK(!names_key(id, "example.org/other", key));
}

TEST_CASE("what is no envelope with one signature is refused") {
  for (const char* bad :
       {"", "[]", "{}", R"({"payload":"","payloadType":"t"})",
        R"({"payload":"","payloadType":"t","signatures":[]})",
        R"({"payload":"!","payloadType":"t","signatures":[{"keyid":"k","sig":""}]})",
        R"({"payload":"","payloadType":"t","signatures":[{"keyid":"k","sig":"!"}]})",
        R"({"payload":"","payloadType":"t","signatures":[{"keyid":"k"}]})",
        R"({"payload":"","payloadType":"t","signatures":[{"keyid":"k","sig":""},{"keyid":"k","sig":""}]})",
        R"({"payload":"","payloadType":"t","signatures":[{"keyid":"k","sig":""}],"more":1})"}) {
    CAPTURE(bad);
    CHECK(!parse_envelope(bad));
  }
  CHECK(parse_envelope(R"({"payload":"","payloadType":"t","signatures":[{"keyid":"k","sig":""}]})"));
}
