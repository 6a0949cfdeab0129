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
