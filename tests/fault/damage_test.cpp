#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "tests/daemon/store/temp_dir.hpp"
#include "tests/fault/column.hpp"
#include "tests/fault/image.hpp"

using namespace driftgate;
using namespace driftgate::fault;
using store::testing::TempDir;
namespace fs = std::filesystem;

namespace {

constexpr const char* kDatabase = "driftgate.db";
constexpr const char* kWal = "driftgate.db-wal";

/// How opening a damaged folder ended, against what it holds undamaged.
enum class Outcome { refused, found, harmless };

/// Fails the test when anything that was served differs from the undamaged log without an error.
Outcome judge(const Opened& opened, const Answers& whole) {
  if (!opened.answers) {
    REQUIRE_FALSE(opened.refusal.empty());
    return Outcome::refused;
  }
  if (!opened.verified) return Outcome::found;
  CHECK_MESSAGE(opened.answers->entries == whole.entries, "other entries were served and verified");
  CHECK_MESSAGE(opened.answers->queries == whole.queries, "a query was answered with other entries");
  return Outcome::harmless;
}

struct Counts {
  int refused = 0, found = 0, harmless = 0;
  void count(Outcome outcome) {
    ++(outcome == Outcome::refused ? refused : outcome == Outcome::found ? found : harmless);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} refused at the start or by a read, {} found by verification, {} without effect",
                       refused, found, harmless);
  }
};

void flip_bits(std::string& bytes, std::mt19937_64& random) {
  const auto flips = 1 + random() % 3;
  for (std::uint64_t i = 0; i < flips; ++i) {
    const auto at = random() % bytes.size();
    bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1u << (random() % 8)));
  }
}

/// Other bits in one byte, and so in one word of those that a frame's checksum adds up: that is surely found.
/// Two bits of one frame cancel each other out in one of 2,070 cases (Fletcher's sums).
void change_byte(std::string& bytes, std::mt19937_64& random) {
  const auto at = random() % bytes.size();
  bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1 + random() % 255));
}

/// One way to damage a WAL; says which.
std::string damage_wal(const fs::path& folder, std::mt19937_64& random) {
  auto bytes = bytes_of(folder / kWal);
  const auto at = random() % bytes.size();
  switch (random() % 5) {
    case 0:
      put_bytes(folder / kWal, bytes.substr(0, at));
      return fmt::format("torn at {}", at);
    case 1:
      fs::remove(folder / kWal);
      return "lost";
    case 2: {
      const auto size = std::min<std::size_t>(bytes.size() - at, 1 + random() % 4'096);
      bytes.replace(at, size, size, '\0');
      put_bytes(folder / kWal, bytes);
      return fmt::format("{} zeros at {}", size, at);
    }
    default:
      change_byte(bytes, random);
      put_bytes(folder / kWal, bytes);
      return "flipped";
  }
}

}  // namespace

TEST_CASE("a torn, flipped or lost WAL is detected whenever the published head is ahead") {
  const auto seed = seed_of_run();
  INFO("seed (set DRIFTGATE_TEST_SEED to repeat): " << seed);
  std::mt19937_64 random(seed);
  TempDir dir;
  const auto image = dir.path() / "image", victim = dir.path() / "victim";
  write_log(dir.path() / "live", 40);
  write_log(dir.path() / "live", 60, image);
  copy_folder(image, victim);
  const auto whole = open_folder(victim);
  REQUIRE(whole.answers.has_value());
  REQUIRE(whole.answers->entries.size() == 100);
  Counts counts;
  const int count = rounds(150, 750);
  for (int i = 0; i < count; ++i) {
    copy_folder(image, victim);
    const auto how = damage_wal(victim, random);
    CAPTURE(i);
    CAPTURE(how);
    const auto opened = open_folder(victim);
    const auto outcome = judge(opened, *whole.answers);
    if (outcome == Outcome::refused)
      CHECK_MESSAGE(opened.refusal.find("rollback detected") != std::string::npos, opened.refusal);
    CHECK(outcome != Outcome::found);  // SQLite's checksums cut the WAL before any bad page is used
    counts.count(outcome);
  }
  CHECK(counts.refused > count / 2);
  tell("torn or flipped WAL", seed, fmt::format("{} rounds, {}", count, counts.text()));
}

TEST_CASE("a swapped-in old backup is detected, with and without its WAL") {
  const auto seed = seed_of_run();
  INFO("seed (set DRIFTGATE_TEST_SEED to repeat): " << seed);
  std::mt19937_64 random(seed);
  TempDir dir;
  const auto live = dir.path() / "live", victim = dir.path() / "victim";
  std::vector<fs::path> backups;
  constexpr int kBackups = 8;
  for (int i = 0; i < kBackups; ++i) {
    backups.push_back(dir.path() / fmt::format("backup-{}", i));
    write_log(live, 5 + static_cast<int>(random() % 40), backups.back());
  }
  write_log(live, 7);
  const int count = rounds(50, 250);
  int with_wal = 0;
  for (int i = 0; i < count; ++i) {
    copy_folder(live, victim);
    const auto& old = backups[random() % backups.size()];
    fs::copy_file(old / kDatabase, victim / kDatabase, fs::copy_options::overwrite_existing);
    if (random() % 2 == 0) {
      fs::copy_file(old / kWal, victim / kWal, fs::copy_options::overwrite_existing);
      ++with_wal;
    }
    CAPTURE(i);
    CAPTURE(old.string());
    const auto opened = open_folder(victim);
    CHECK_FALSE(opened.answers.has_value());
    CHECK_MESSAGE(opened.refusal.find("rollback detected") != std::string::npos, opened.refusal);
  }
  tell("swapped-in old backup", seed, fmt::format("{} rounds, {} with a WAL, all refused", count, with_wal));
}

TEST_CASE("bit flips in database pages never change an answer unnoticed") {
  const auto seed = seed_of_run();
  INFO("seed (set DRIFTGATE_TEST_SEED to repeat): " << seed);
  std::mt19937_64 random(seed);
  TempDir dir;
  const auto live = dir.path() / "live", victim = dir.path() / "victim";
  write_log(live, 1'100);  // one block of the index and some entries beyond it
  copy_folder(live, victim);
  const auto whole = open_folder(victim);
  REQUIRE(whole.answers.has_value());
  REQUIRE(whole.verified);
  Counts counts;
  const int count = rounds(500, 5'000);
  for (int i = 0; i < count; ++i) {
    copy_folder(live, victim);
    auto bytes = bytes_of(victim / kDatabase);
    flip_bits(bytes, random);
    put_bytes(victim / kDatabase, bytes);
    CAPTURE(i);
    counts.count(judge(open_folder(victim), *whole.answers));
  }
  CHECK(counts.refused + counts.found > count / 4);
  tell("bit flips in database pages", seed, fmt::format("{} rounds, {}", count, counts.text()));
}
