#include "daemon/jobs/pickle.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/jobs/hash_pool.hpp"
#include "daemon/jobs/manifest.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using schema::ErrorCode;
using namespace std::string_literals;

namespace {

/// The bytes of a file as who hashes it sees them.
bool is_pickle(const std::string& bytes) {
  return why_pickle_bytes(std::string_view(bytes).substr(0, kPickleHeadBytes),
                          bytes.empty() ? '\0' : bytes.back())
      .has_value();
}

/// A NumPy file of format 1.0 with this dictionary, padded as NumPy does, and `data`.
std::string npy(std::string dictionary, const std::string& data = "\1\2\3\4") {
  while ((10 + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string out = "\x93NUMPY\x01";
  out += '\0';
  out += static_cast<char>(dictionary.size() & 0xFF);
  out += static_cast<char>(dictionary.size() >> 8);
  return out + dictionary + data;
}

/// A safetensors file whose header has `size` bytes.
std::string safetensors(std::size_t size, const std::string& data) {
  std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(size, ' ');
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(size >> (8 * i));
  return out + header + data;
}

const std::string kReduce = "cposix\nsystem\n(S'id'\ntR.";

}  // namespace

TEST_CASE("a pickle is one whatever follows its end, since who loads it stops there") {
  const std::string heads[] = {
      std::string("\x80\x02", 2) + "}q\x01.",
      std::string("\x80\x02", 2) + kReduce,
      std::string("\x80\x03", 2) + kReduce,
      std::string("\x80\x04\x95\x0b\0\0\0\0\0\0\0", 11) + kReduce,
      std::string("\x80\x05", 2) + "N.",
      kReduce,
      "cos\nsystem\n(V\\u0069d\ntR.",
      "cos\nsystem\nq\x01(U\x02idtR.",
      "cbuiltins\neval\n(X\x02\0\0\0001+tR."s,
      "(cposix\nsystem\nS'id'\no.",
      "(S'id'\niposix\nsystem\n.",
      "c__builtin__\nexec\np0\n(S\"1\"\ntR.",
  };
  for (const std::string& pickle : heads) {
    CAPTURE(pickle);
    CHECK(is_pickle(pickle));
    for (const char* tail : {"\n", " ", "x", "end", "{}"}) CHECK(is_pickle(pickle + tail));
    CHECK(is_pickle(pickle + std::string(4'096, '\0')));
  }
}

TEST_CASE("a pickle whose end is far behind what is looked at is one by its opcodes") {
  const std::string letters(100'000, 'x');
  CHECK(is_pickle("cposix\nsystem\n(S'" + letters + "'\ntR.\n"));
  CHECK(is_pickle("(cposix\nsystem\nV" + letters + "\no.\n"));
  CHECK_FALSE(is_pickle("cposix\nsystem\n" + letters));
}

TEST_CASE("a safetensors file is no pickle, though its length may begin like one") {
  for (const std::size_t size : {640UL, 896UL, 1'152UL, 1'408UL, 66'176UL, 4'096UL}) {
    for (const char* last : {"x", ".", "\n"}) {
      CAPTURE(size);
      CHECK_FALSE(is_pickle(safetensors(size, last)));
    }
  }
  // With an opcode behind them the same two bytes begin a pickle.
  std::string forged = safetensors(640, "x");
  forged[2] = '}';
  CHECK(is_pickle(forged));
}

TEST_CASE("an array of objects is refused however its type is spelled, and an array of numbers is not") {
  const std::string rest = ", 'fortran_order': False, 'shape': (1,), }";
  for (const char* type : {"'|O'", "\"|O\"", "'O'", "'|O8'", "'<O'", "'object'", "\"object\"",
                           "[('a', '|O')]", "[('a', '<f4'), ('b', \"O\")]"}) {
    CAPTURE(type);
    CHECK(is_pickle(npy("{'descr': " + std::string(type) + rest)));
    CHECK(is_pickle(npy("{'fortran_order': False, 'shape': (1,), 'descr': " + std::string(type) + "}")));
    // Pushed out of what is looked at.
    CHECK(is_pickle(npy("{" + std::string(600, ' ') + "'descr': " + std::string(type) + rest)));
  }
  for (const char* type : {"'<f4'", "'<f2'", "'|u1'", "'>i8'", "[('x', '<f4'), ('y', '<f4')]"}) {
    CAPTURE(type);
    CHECK_FALSE(is_pickle(npy("{'descr': " + std::string(type) + rest)));
  }
  CHECK_FALSE(is_pickle(npy("{'descr': '<f4'" + rest, "O data that spells 'O' and object")));
  CHECK_FALSE(is_pickle(npy("{'descr': '<f4'" + rest, "")));
}

TEST_CASE("texts of a checkpoint are no pickles") {
  for (const char* text : {"config\n", "changes\nfirst\nSee below.\n", "cat\ndog\nsat.\n", "cat\ndog\n",
                           "c\n\n.", "(c) 2026 the authors.", "{\"a\": 1}.", "# cos\nsystem\n", "]", "}", "c",
                           "\x80", "\x80\x01.", "\x80\x06N.", "", ".", "PK", "NUMPY"}) {
    CAPTURE(text);
    CHECK_FALSE(is_pickle(text));
  }
}

TEST_CASE("a name is judged by its end, in any case and any folder") {
  for (const char* name :
       {"model.PT", "a/b/pytorch_model.bin", "x.tar.pth", ".pkl", "a.pickle", "w.CKPT", "m.dill"})
    CHECK(why_pickle_name(name).has_value());
  for (const char* name : {"model.safetensors", "bin", "pt", "a.bin/model.safetensors", "a.pt.json",
                           "tokenizer.model", "notes.binary", ""})
    CHECK_FALSE(why_pickle_name(name).has_value());
}

TEST_CASE("what lies in a checkpoint and is no file is refused by name, and a pipe is not waited for") {
  const auto refusal = [](auto put) {
    const TempFolder folder;
    (void)folder.file("ckpt/sub/config.json", "{}");
    put(folder.path / "ckpt/sub");
    const auto manifest = checkpoint_manifest("ckpt", {folder.path.string()});
    REQUIRE_FALSE(manifest);
    return manifest.error();
  };
  const auto pipe = refusal([](const auto& at) { REQUIRE(::mkfifo((at / "pipe").c_str(), 0600) == 0); });
  CHECK(pipe.code == ErrorCode::forbidden);
  CHECK(pipe.message == "sub/pipe is neither a file nor a folder");
  const auto link =
      refusal([](const auto& at) { std::filesystem::create_directory_symlink("/", at / "link"); });
  CHECK(link.code == ErrorCode::forbidden);
  CHECK(link.message == "sub/link is a symbolic link; a checkpoint holds files only");
  const auto socket = refusal([](const auto& at) {
    const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = at / "sock";
    REQUIRE(path.size() < sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  });
  CHECK(socket.message.find("sub/sock") != std::string::npos);
}

TEST_CASE("a checkpoint is as deep and as large as its limits and no more") {
  const TempFolder folder;
  std::string deep = "deep";
  for (std::size_t i = 0; i < kMaxManifestDepth; ++i) deep += "/d";
  (void)folder.file(deep + "/config.json", "{}");
  CHECK(checkpoint_manifest("deep", {folder.path.string()}));
  (void)folder.file(deep + "/d/config.json", "{}");
  const auto deeper = checkpoint_manifest("deep", {folder.path.string()});
  REQUIRE_FALSE(deeper);
  CHECK(deeper.error().code == ErrorCode::limit_exceeded);
  CHECK(deeper.error().message.find("is more than 16 folders deep") != std::string::npos);
  std::filesystem::create_directory(folder.path / "many");
  for (std::size_t i = 0; i < kMaxManifestFiles; ++i)
    std::ofstream(folder.path / "many" / std::to_string(i)).put('x');
  CHECK(checkpoint_manifest("many", {folder.path.string()})->files.size() == kMaxManifestFiles);
  (void)folder.file("many/more", "x");
  const auto many = checkpoint_manifest("many", {folder.path.string()});
  REQUIRE_FALSE(many);
  CHECK(many.error().message == "more than 10000 files in the checkpoint");
}

TEST_CASE("a file that changes between the look at it and its hash is a conflict, and ends the rest") {
  const TempFolder folder;
  const auto open = [&](const std::string& path) {
    return base::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  };
  const auto identity = [](const base::UniqueFd& fd) {
    struct stat status {};
    REQUIRE(::fstat(fd.get(), &status) == 0);
    return FileIdentity::of(status);
  };
  const auto changing = folder.file("model.safetensors", "weights");
  const auto still = folder.file("config.json", "{}");
  auto fd = open(changing);
  const auto before = identity(fd);
  std::ofstream(changing, std::ios::app) << " and more";
  HashPool pool(1);
  std::string unused;
  REQUIRE(pool.add("model.safetensors", std::move(fd), before, &unused));
  std::vector<std::string> hashes(HashPool::kMaxWaiting + 2);
  bool taken = true;
  for (std::size_t i = 0; taken && i < hashes.size(); ++i) {
    auto other = open(still);
    const auto same = identity(other);
    taken = pool.add("config.json", std::move(other), same, &hashes[i]);
  }
  CHECK_FALSE(taken);  // of so many one has to wait, and is told that it is in vain
  const auto done = pool.finish();
  REQUIRE_FALSE(done);
  CHECK(done.error().code == ErrorCode::conflict);
  CHECK(done.error().message.find("model.safetensors changed while it was hashed") == 0);
  CHECK(unused.empty());
}

TEST_CASE(
    "a cache that cannot keep a hash is an error of the manifest, since it would be read again for ever") {
  struct FullCache final : HashCache {
    std::optional<std::string> find(const FileIdentity&) override { return std::nullopt; }
    schema::Result<void> put(const std::vector<std::pair<FileIdentity, std::string>>&) override {
      return schema::fail(ErrorCode::storage_full, "no space left");
    }
  } cache;
  const TempFolder folder;
  (void)folder.file("ckpt/config.json", "{}");
  const auto manifest = checkpoint_manifest(
      "ckpt", {folder.path.string()}, {.threads = 1, .cache = &cache, .now_ns = 4'000'000'000'000'000'000});
  REQUIRE_FALSE(manifest);
  CHECK(manifest.error().code == ErrorCode::storage_full);
}
