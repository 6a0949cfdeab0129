// Keys, the record of them in the data folder, and what becomes of both in rotations.
#include "daemon/evidence/keys/key_files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include "daemon/evidence/bundle/dsse.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using schema::ErrorCode;
namespace fs = std::filesystem;

namespace {

const std::string kOrigin = HeadOptions{}.origin;

/// Rotates a key of a daemon that does not run.
Result<PublicKey> rotate(const fs::path& folder, const KeyFile& file, const std::string& reason,
                         std::int64_t now_us) {
  auto store = open_store(folder);
  must(HeadPublisher::start(*store, {}))->stop();
  return rotate_key(*store, file, reason, now_us);
}

/// Writes a private key of an OpenSSL algorithm as PKCS #8 PEM, encrypted where there is a password.
void write_pem(const fs::path& path, const char* algorithm, const char* password) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      std::string(algorithm) == "EC" ? EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")
                                     : EVP_PKEY_Q_keygen(nullptr, nullptr, algorithm),
      EVP_PKEY_free);
  REQUIRE(key);
  const std::unique_ptr<BIO, int (*)(BIO*)> file(BIO_new_file(path.c_str(), "w"), BIO_free);
  REQUIRE(PEM_write_bio_PKCS8PrivateKey(file.get(), key.get(),
                                        password == nullptr ? nullptr : EVP_aes_256_cbc(), nullptr, 0,
                                        nullptr, const_cast<char*>(password)) == 1);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
}

}  // namespace

TEST_CASE("a key that needs a password, or is of another algorithm, is refused and nobody is asked") {
  TempDir dir;
  for (const auto& [algorithm, password] : {std::pair<const char*, const char*>{"ED25519", "secret"},
                                            {"X25519", nullptr},
                                            {"ED448", nullptr},
                                            {"EC", nullptr}}) {
    CAPTURE(algorithm);
    const fs::path path = dir.path() / algorithm;
    write_pem(path, algorithm, password);
    // Whoever is asked for the password answers with the right one.
    const fs::path answers = dir.path() / "answers";
    std::ofstream(answers) << "secret\n";
    const int before = ::dup(STDIN_FILENO);
    const int from = ::open(answers.c_str(), O_RDONLY);
    REQUIRE(::dup2(from, STDIN_FILENO) >= 0);
    const auto loaded = SigningKey::load(path.string());
    const off_t read = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
    ::close(from);
    REQUIRE(::dup2(before, STDIN_FILENO) >= 0);
    ::close(before);
    REQUIRE(!loaded);
    CHECK(loaded.error().code == ErrorCode::corrupt);
    CHECK(loaded.error().message.find("is not a PKCS #8 PEM file of an Ed25519 key") != std::string::npos);
    CHECK(read == 0);
  }
  write_pem(dir.path() / "good", "ED25519", nullptr);
  CHECK(SigningKey::load((dir.path() / "good").string()));
  fs::create_symlink(dir.path() / "good", dir.path() / "link");
  CHECK(SigningKey::load((dir.path() / "link").string()).error().code == ErrorCode::io);
}

TEST_CASE("signatures are those of RFC 8032's test vectors, and none of another length or message verifies") {
  const auto key_of = [](std::string_view hex) {
    const std::string bytes = schema::from_hex(hex).value();
    PublicKey key{};
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(key.data()));
    return key;
  };
  // RFC 8032, section 7.1: tests 1 to 3.
  const std::tuple<const char*, std::string, const char*> vectors[] = {
      {"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
       "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf"
       "5f0595b"
       "be24655141438e7a100b"},
      {"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "\x72",
       "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2"
       "eaeb430"
       "2aeeb00d291612bb0c00"},
      {"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "\xaf\x82",
       "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c1"
       "5e9716e"
       "d28dc027beceea1ec40a"}};
  for (const auto& [hex, message, signature_hex] : vectors) {
    const PublicKey key = key_of(hex);
    const std::string signature = schema::from_hex(signature_hex).value();
    CHECK(verify_signature(key, message, signature));
    CHECK(!verify_signature(key, message + "x", signature));
    CHECK(!verify_signature(key, message, signature.substr(0, 63)));
    CHECK(!verify_signature(key, message, signature + '\0'));
    CHECK(!verify_signature(key, message, ""));
    CHECK(!verify_signature(PublicKey{}, message, signature));
    // s + the group's order is the other spelling that RFC 8032, section 5.1.7, refuses.
    std::string other = signature;
    const std::string order =
        schema::from_hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").value();
    unsigned carry = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      carry += static_cast<std::uint8_t>(other[32 + i]) + static_cast<std::uint8_t>(order[i]);
      other[32 + i] = static_cast<char>(carry & 0xff);
      carry >>= 8;
    }
    CHECK(!verify_signature(key, message, other));
  }
}

TEST_CASE("the record of keys tells the one in force, and a file that is no record stops the daemon") {
  TempDir dir;
  const KeyFile file{KeyUse::head, dir.path() / "log.key", kOrigin};
  PublicKey one{}, two{};
  one.fill(1);
  two.fill(2);
  must(check_key({}, file, one));
  must(note_key(dir.path(), file, one, 0, 5));
  must(note_key(dir.path(), file, one, 9, 6));  // known: nothing changes
  must(note_key(dir.path(), {KeyUse::attestation, "a", kOrigin}, PublicKey{}, 0, 7));
  must(note_key(dir.path(), file, two, 40, 8));
  const TrustFile trust = must(load_trust(dir.path()));
  REQUIRE(trust.keys.size() == 3);
  CHECK(trust.keys[0] == TrustedKey{KeyUse::head, kOrigin, one, 0, 5, 8});
  CHECK(trust.keys[1].until_us == std::nullopt);
  CHECK(trust.keys[2] == TrustedKey{KeyUse::head, kOrigin, two, 40, 8, std::nullopt});
  must(check_key(trust, file, two));
  const auto retired = check_key(trust, file, one);
  REQUIRE(!retired);
  CHECK(retired.error().code == ErrorCode::corrupt);
  CHECK(retired.error().message.find("log.key is not the one in force, which trust.json") !=
        std::string::npos);
  CHECK(!check_key(trust, file, PublicKey{}));
  must(check_key(trust, {KeyUse::head, "log.key", "another.log"}, one));
  for (const std::string& bad : {std::string(), std::string("{}"), std::string(kMaxTrustBytes + 1, ' '),
                                 trust_json(trust).substr(0, 100)}) {
    std::ofstream(trust_path(dir.path()), std::ios::trunc) << bad;
    const auto read = load_trust(dir.path());
    REQUIRE(!read);
    CHECK(read.error().code != ErrorCode::io);
    CHECK(read.error().message == "cannot read " + trust_path(dir.path()).string());
    CHECK(!note_key(dir.path(), file, one, 0, 1));
  }
}

TEST_CASE(
    "a swapped, retired or foreign head key is refused at the start, each with words that say what to do") {
  TempDir dir;
  live(dir.path(), 3);
  const fs::path key = dir.path() / "log.key";
  const std::string first = content_of(key);
  must(rotate(dir.path(), {KeyUse::head, key, kOrigin}, "yearly", 50));
  CHECK(refusal(dir.path()).empty());
  const std::string second = content_of(key);
  const auto put = [&](const std::string& pem) { std::ofstream(key, std::ios::trunc) << pem; };
  put(first);
  CHECK(refusal(dir.path()).find("is not the one in force, which trust.json in the data folder names") !=
        std::string::npos);
  put("-----BEGIN");
  CHECK(refusal(dir.path()).find("is not a PKCS #8 PEM file of an Ed25519 key") != std::string::npos);
  fs::remove(key);
  CHECK(refusal(dir.path()).find("is missing, though the log has a published head or entries") !=
        std::string::npos);
  put(second);
  REQUIRE(::chmod(key.c_str(), 0644) == 0);
  CHECK(refusal(dir.path()).find("others may read the key") != std::string::npos);
  REQUIRE(::chmod(key.c_str(), 0600) == 0);
  CHECK(refusal(dir.path()).empty());
}

TEST_CASE("a rotation needs a reason and a key, and each key before it stays beside the newest") {
  TempDir dir;
  live(dir.path(), 3);
  const fs::path key = dir.path() / "log.key";
  const KeyFile file{KeyUse::head, key, kOrigin};
  CHECK(rotate(dir.path(), file, "", 50).error().code == ErrorCode::invalid_argument);
  CHECK(rotate(dir.path(), {KeyUse::attestation, dir.path() / "attestation.key", kOrigin}, "yearly", 50)
            .error()
            .code == ErrorCode::io);
  CHECK(!fs::exists(dir.path() / "attestation.key.next"));
  std::vector<std::string> pems{content_of(key)};
  for (int i = 1; i <= 3; ++i) {
    must(rotate(dir.path(), file, "yearly", 50 * i));
    pems.push_back(content_of(key));
  }
  CHECK(!fs::exists(key.string() + ".next"));
  std::size_t kept = 0;
  for (const auto& item : fs::directory_iterator(dir.path())) {
    if (!item.path().filename().string().starts_with("log.key.retired-")) continue;
    ++kept;
    struct stat status {};
    REQUIRE(::stat(item.path().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    CHECK(std::ranges::find(pems, content_of(item.path())) != pems.end());
  }
  CHECK(kept == 3);
  const TrustFile trust = must(load_trust(dir.path()));
  REQUIRE(trust.keys.size() == 4);
  CHECK(trust.keys[1].from_size == 4);
  CHECK(trust.keys[2].from_size == 5);
  CHECK(trust.keys[2].until_us == 150);
  CHECK(refusal(dir.path()).empty());
}

TEST_CASE("a rotated attestation key retires the one before it, and is of another use than the log's") {
  TempDir dir;
  live(dir.path(), 3);
  const KeyFile file{KeyUse::attestation, dir.path() / "attestation.key", kOrigin};
  const auto old = must(AttestationSigner::open(file.path.string(), kOrigin)).public_key();
  const auto fresh = must(rotate(dir.path(), file, "yearly", 50));
  CHECK(must(AttestationSigner::open(file.path.string(), kOrigin)).public_key() == fresh);
  const TrustFile trust = must(load_trust(dir.path()));
  REQUIRE(trust.keys.size() == 3);
  CHECK(trust.keys[1] == TrustedKey{KeyUse::attestation, kOrigin, old, 0, 0, 50});
  CHECK(trust.keys[2] == TrustedKey{KeyUse::attestation, kOrigin, fresh, 0, 50, std::nullopt});
  CHECK(trust.keys[0].until_us == std::nullopt);
  CHECK(refusal(dir.path()).empty());
  std::ofstream(file.path.string() + ".next") << "left by a crash";
  auto store = open_store(dir.path());
  must(finish_rotation(*store, file));
  CHECK(!fs::exists(file.path.string() + ".next"));
  CHECK(must(AttestationSigner::open(file.path.string(), kOrigin)).public_key() == fresh);
}
