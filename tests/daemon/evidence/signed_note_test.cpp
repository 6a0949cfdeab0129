#include "daemon/evidence/signed_note.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "daemon/evidence/base64.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::store::testing;
using schema::ErrorCode;

namespace {
const Checkpoint kCheckpoint{"example.org/log", 42, leaf_hash("something")};
}

TEST_CASE("base 64 is that of RFC 4648 section 10 and refuses other spellings") {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
  for (const char* bad :
       {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9v\n", " Zm9v", "Zm-v", "=", "Zg==Zg=="}) {
    CAPTURE(bad);
    CHECK(!from_base64(bad));
  }
}

TEST_CASE("a signed checkpoint has the lines of a C2SP note and opens with its key") {
  const auto key = must(SigningKey::generate());
  const std::string note = must(sign_checkpoint(kCheckpoint, key));
  CHECK(note.starts_with("example.org/log\n42\n" + to_base64(schema::as_chars(kCheckpoint.root)) +
                         "\n\n\xE2\x80\x94 example.org/log "));
  CHECK(must(open_checkpoint(note, "example.org/log", key.public_key())) == kCheckpoint);
}

TEST_CASE("a checkpoint by another key or under another name does not open") {
  const auto key = must(SigningKey::generate());
  const auto other = must(SigningKey::generate());
  const std::string note = must(sign_checkpoint(kCheckpoint, key));
  CHECK(open_checkpoint(note, "example.org/log", other.public_key()).error().code == ErrorCode::forbidden);
  CHECK(!open_checkpoint(note, "example.org/other", key.public_key()));
}

TEST_CASE("a note with any byte changed or cut off does not open") {
  const auto key = must(SigningKey::generate());
  const std::string note = must(sign_checkpoint(kCheckpoint, key));
  for (std::size_t i = 0; i < note.size(); ++i) {
    CAPTURE(i);
    std::string changed = note;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK(!open_checkpoint(changed, "example.org/log", key.public_key()));
    CHECK(!open_checkpoint(note.substr(0, i), "example.org/log", key.public_key()));
  }
}

TEST_CASE("a log's name has no spaces, line ends or plus signs") {
  const auto key = must(SigningKey::generate());
  for (const char* name : {"", "a b", "a+b", "a\nb", "a\tb"}) {
    CAPTURE(name);
    CHECK(!sign_checkpoint({name, 0, empty_root()}, key));
  }
}

TEST_CASE("the verifier key of the C2SP signed-note example has its key id") {
  // golang.org/x/mod/sumdb/note's published example key.
  const std::string text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
  const auto bytes = must(from_base64("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"));
  PublicKey key{};
  std::copy(bytes.begin() + 1, bytes.end(), reinterpret_cast<char*>(key.data()));
  CHECK(key_id("PeterNeumann", key) == 0xc74f20a3);
  CHECK(verifier_key_text("PeterNeumann", key) == text);
}

TEST_CASE("a key survives its file, which only its owner may read") {
  TempDir dir;
  const std::string path = (dir.path() / "log.key").string();
  const auto key = must(SigningKey::generate());
  must(key.save(path));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto loaded = must(SigningKey::load(path));
  CHECK(loaded.public_key() == key.public_key());
  CHECK(must(loaded.sign("m")) == must(key.sign("m")));
  CHECK(key.save(path).error().code == ErrorCode::already_exists);
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK(SigningKey::load(path).error().code == ErrorCode::forbidden);
  CHECK(SigningKey::load((dir.path() / "none").string()).error().code == ErrorCode::io);
  std::ofstream(dir.path() / "bad") << "no key";
  REQUIRE(::chmod((dir.path() / "bad").c_str(), 0600) == 0);
  CHECK(SigningKey::load((dir.path() / "bad").string()).error().code == ErrorCode::corrupt);
}

TEST_CASE("the openssl command verifies a signature over the checkpoint's text") {
  TempDir dir;
  const std::string folder = dir.path().string();
  const auto key = must(SigningKey::generate());
  must(key.save(folder + "/log.key"));
  const std::string text = checkpoint_text(kCheckpoint);
  std::ofstream(folder + "/text", std::ios::binary) << text;
  std::ofstream(folder + "/signature", std::ios::binary) << must(key.sign(text));
  const std::string command = "openssl pkeyutl -verify -inkey " + folder + "/log.key -rawin -in " + folder +
                              "/text -sigfile " + folder + "/signature > /dev/null 2>&1";
  CHECK(std::system(command.c_str()) == 0);
  std::ofstream(folder + "/text", std::ios::binary | std::ios::app) << "x";
  CHECK(std::system(command.c_str()) != 0);
}
