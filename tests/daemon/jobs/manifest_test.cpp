#include "daemon/jobs/manifest.hpp"

#include "schema/sha256.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using driftgate::jobs::testing::TempFolder;

TEST_CASE("a manifest is the digest of every file's path, digest and size, sorted by path") {
  const TempFolder folder;
  (void)folder.file("ckpt/model.safetensors", "weights");
  (void)folder.file("ckpt/config.json", "{}");
  const auto manifest = jobs::checkpoint_manifest("ckpt", {folder.path.string()});
  REQUIRE(manifest.has_value());
  const auto hex = [](std::string_view bytes) { return schema::to_hex(schema::sha256(bytes)); };
  const auto expected = R"([{"path":"config.json","sha256":")" + hex("{}") +
                        R"(","size":2},{"path":"model.safetensors","sha256":")" + hex("weights") +
                        R"(","size":7}])";
  CHECK(manifest->digest == schema::sha256_digest(expected));
}

TEST_CASE("a checkpoint with a pickle, a symbolic link or nothing in it is refused by name") {
  const TempFolder folder;
  (void)folder.file("pickle/model.bin", "x");
  (void)folder.file("link/config.json", "{}");
  std::filesystem::create_symlink("/etc/passwd", folder.path / "link" / "model.safetensors");
  std::filesystem::create_directories(folder.path / "empty");
  const std::vector<std::string> roots{folder.path.string()};
  CHECK(jobs::checkpoint_manifest("pickle", roots).error().message.find("model.bin") != std::string::npos);
  CHECK(jobs::checkpoint_manifest("link", roots).error().message.find("symbolic link") != std::string::npos);
  CHECK(jobs::checkpoint_manifest("empty", roots).error().message.find("empty") != std::string::npos);
  CHECK_FALSE(jobs::checkpoint_manifest("pickle/model.bin", roots).has_value());
}

namespace {

/// Remembers hashes, and that it was asked.
class MemoryCache final : public jobs::HashCache {
 public:
  std::optional<std::string> find(const jobs::FileIdentity& identity) override {
    for (const auto& [known, hash] : kept)
      if (known == identity) return hash;
    return std::nullopt;
  }
  schema::Result<void> put(const std::vector<std::pair<jobs::FileIdentity, std::string>>& hashes) override {
    kept.insert(kept.end(), hashes.begin(), hashes.end());
    return {};
  }
  std::vector<std::pair<jobs::FileIdentity, std::string>> kept;
};

constexpr std::int64_t kLater = 4'000'000'000'000'000'000;  ///< ns: every file is old by then

}  // namespace

TEST_CASE("a manifest is the same from any number of threads, and reads each file once") {
  const TempFolder folder;
  for (int i = 0; i < 40; ++i)
    (void)folder.file("ckpt/" + std::to_string(i) + ".safetensors", std::string(50'000 * (i % 3), 'a'));
  const std::vector<std::string> roots{folder.path.string()};
  const auto alone = jobs::checkpoint_manifest("ckpt", roots, {.threads = 1});
  MemoryCache cache;
  const auto together =
      jobs::checkpoint_manifest("ckpt", roots, {.threads = 8, .cache = &cache, .now_ns = kLater});
  REQUIRE(alone.has_value());
  REQUIRE(together.has_value());
  CHECK(alone->digest == together->digest);
  CHECK(together->read == 40);
  const auto again =
      jobs::checkpoint_manifest("ckpt", roots, {.threads = 2, .cache = &cache, .now_ns = kLater});
  CHECK(again->digest == alone->digest);
  CHECK(again->read == 0);
  (void)folder.file("ckpt/7.safetensors", "other weights");
  const auto changed =
      jobs::checkpoint_manifest("ckpt", roots, {.threads = 2, .cache = &cache, .now_ns = kLater});
  CHECK(changed->digest != alone->digest);
  CHECK(changed->read == 1);
}

TEST_CASE("a file that was written just now is not cached, since another write may not show") {
  const TempFolder folder;
  (void)folder.file("ckpt/a.safetensors", "weights");
  MemoryCache cache;
  const std::vector<std::string> roots{folder.path.string()};
  REQUIRE(jobs::checkpoint_manifest("ckpt", roots, {.threads = 1, .cache = &cache, .now_ns = 1}).has_value());
  CHECK(cache.kept.empty());
}

TEST_CASE("a pickle is refused under any name and a text that looks a little like one is not") {
  const std::string proto2 = std::string("\x80\x02", 2) + "}q\x01X\x01";
  const std::vector<std::pair<std::string, bool>> contents{
      {proto2 + ".", true},
      {std::string("\x80\x05\x95", 3) + "rest.", true},
      {std::string("\x80\x06", 2) + ".", false},
      {"cposix\nsystem\n(S'ls'\ntR.", true},
      {"(dp0\nS'a'\np1\n.", true},
      {std::string("PK\x03\x04", 4) + "archive/data.pkl", true},
      {std::string("\x93NUMPY\x01\0\x1f\0", 10) + "{'descr': '|O', 'shape': (1,)}\nx", true},
      {std::string("\x93NUMPY\x01\0\x20\0", 10) + "{'descr': '<f4', 'shape': (1,)}\nx", false},
      {"checkpoint\nof\nthe model, described here.\n", false},
      {"(draft) A model card.", false},
      {"{\"vocab\": 1}", false},
      {"", false},
  };
  for (std::size_t i = 0; i < contents.size(); ++i) {
    CAPTURE(i);
    const TempFolder folder;
    (void)folder.file("ckpt/model.safetensors", contents[i].first);
    const auto manifest = jobs::checkpoint_manifest("ckpt", {folder.path.string()});
    CHECK(manifest.has_value() != contents[i].second);
    if (!manifest) CHECK(manifest.error().message.find("model.safetensors may be a pickle") == 0);
  }
  for (const char* name : {"a.PKL", "b.pt", "c.Bin", "d.joblib", "e.npz", "f.ckpt"}) {
    CAPTURE(name);
    const TempFolder folder;
    (void)folder.file(std::string("ckpt/") + name, "x");
    CHECK_FALSE(jobs::checkpoint_manifest("ckpt", {folder.path.string()}).has_value());
  }
}
