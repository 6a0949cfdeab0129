#include "daemon/evidence/keys/signed_note.hpp"

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

TEST_CASE("a note is read as strictly as its specification says, whoever's the lines are") {
  const auto key = must(SigningKey::generate());
  const auto other = must(SigningKey::generate());
  const std::string name = "example.org/log";
  const std::string note = must(sign_checkpoint(kCheckpoint, key));
  const std::string text = checkpoint_text(kCheckpoint);
  const std::string line = note.substr(text.size() + 1);
  const std::string foreign = must(sign_checkpoint(kCheckpoint, other)).substr(text.size() + 1);
  const std::string mark = "\xE2\x80\x94 ";
  const auto opens = [&](const std::string& changed) {
    return open_checkpoint(changed, name, key.public_key()).has_value();
  };
  for (const std::string& good : {line, line + foreign, foreign + line, line + mark + "w AAAAAAAA\n"}) {
    CAPTURE(good);
    CHECK(opens(text + "\n" + good));
  }
  for (const std::string& bad :
       {"\n" + line, line + "\n", line + line, line + "\n" + line, line + foreign + foreign, line.substr(4),
        line + "x\n", line.substr(0, line.size() - 1), line + mark + "w\n", line + mark + "w AAAA\n",
        line + mark + "w AAAAAAA\n", line + mark + " AAAAAAAA\n", line + mark + "a+b AAAAAAAA\n",
        line + mark + "a\xC2\xA0z AAAAAAAA\n", line + mark + "a\tb AAAAAAAA\n",
        line + mark + "\xFF AAAAAAAA\n", line + mark + "w AAAAAAAA \n", line + mark + "w AAAAAAAA\r\n"}) {
    CAPTURE(bad);
    CHECK(!opens(text + "\n" + bad));
    CHECK(!read_checkpoint(text + "\n" + bad));
  }
  std::string many = text + "\n" + line;
  for (int i = 1; i < 100; ++i) many += mark + "w" + std::to_string(i) + " AAAAAAAA\n";
  CHECK(opens(many));
  CHECK(!opens(many + mark + "w100 AAAAAAAA\n"));
}

TEST_CASE("lines after the root are extensions, which are signed and may not be empty") {
  const auto key = must(SigningKey::generate());
  const std::string line = "\xE2\x80\x94 example.org/log ";
  const auto note = [&](const std::string& text) {
    std::string id;
    for (int shift = 24; shift >= 0; shift -= 8)
      id += static_cast<char>(key_id("example.org/log", key.public_key()) >> shift & 0xff);
    return text + "\n" + line + to_base64(id + must(key.sign(text))) + "\n";
  };
  const std::string text = checkpoint_text(kCheckpoint);
  const auto opened = open_checkpoint(note(text + "more\n"), "example.org/log", key.public_key());
  REQUIRE(opened);
  CHECK(*opened == kCheckpoint);
  for (const std::string& bad :
       {text + "\n", text + "\nmore\n", text + "a\tb\n", "\n" + text,
        std::string("example.org/log\n042\n") + text.substr(text.find("42\n") + 3)}) {
    CAPTURE(bad);
    CHECK(!open_checkpoint(note(bad), "example.org/log", key.public_key()));
  }
}

TEST_CASE("a log's name has no spaces, line ends or plus signs") {
  const auto key = must(SigningKey::generate());
  for (const char* name : {"", "a b", "a+b", "a\nb", "a\tb", "a\xC2\xA0z", "\xFF"}) {
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
