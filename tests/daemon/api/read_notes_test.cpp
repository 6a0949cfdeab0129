#include "daemon/api/read_notes.hpp"

#include <doctest/doctest.h>

#include <string>

using driftgate::api::ReadNotes;

TEST_CASE("the same question within a minute is counted, not recorded again") {
  ReadNotes notes;
  std::int64_t now = 1'000'000'000;
  CHECK(notes.admit("ada", "entries", now) == 0);
  CHECK(!notes.admit("ada", "entries", now + 1));
  CHECK(!notes.admit("ada", "entries", now + ReadNotes::kRepeat_us - 1));
  CHECK(notes.admit("bob", "entries", now + 1) == 0);
  CHECK(notes.admit("ada", "other", now + 2) == 2);
  CHECK(notes.admit("ada", "entries", now + 3) == 0);
}

TEST_CASE("one reader gets a burst of entries and then one for each refill, however many questions") {
  ReadNotes notes;
  std::int64_t now = 1'000'000'000;
  int recorded = 0;
  for (int i = 0; i < 1'000; ++i) {
    if (notes.admit("ada", "question " + std::to_string(i), now)) ++recorded;
  }
  CHECK(recorded == static_cast<int>(ReadNotes::kBurst));
  now += ReadNotes::kRefill_us;
  CHECK(notes.admit("ada", "a later one", now) == 1'000 - recorded);
  CHECK(!notes.admit("ada", "and another", now));
}

TEST_CASE("the readers that are remembered are bounded") {
  ReadNotes notes;
  for (std::size_t i = 0; i < ReadNotes::kMaxReaders + 10; ++i) {
    CHECK(notes.admit("reader-" + std::to_string(i), "q", static_cast<std::int64_t>(i + 1)) == 0);
  }
  // The first was forgotten, the last was not.
  CHECK(notes.admit("reader-0", "q", 2'000'000) == 0);
  CHECK(!notes.admit("reader-" + std::to_string(ReadNotes::kMaxReaders + 9), "q", 2'000'000));
}

TEST_CASE("reads that could not be recorded are owed by person, and taken once") {
  ReadNotes notes;
  notes.owe("ada", {"entries", 1});
  notes.owe("ada", {"audit sample", 3});
  notes.owe("bob", {"entries", 2});
  const auto owed = notes.take_owed();
  REQUIRE(owed.size() == 2);
  CHECK(owed.at("ada").what == "audit sample");
  CHECK(owed.at("ada").reads == 4);
  CHECK(owed.at("bob").reads == 2);
  CHECK(notes.take_owed().empty());
  for (std::size_t i = 0; i <= ReadNotes::kMaxReaders; ++i) notes.owe("p" + std::to_string(i), {"entries", 1});
  std::int64_t reads = 0;
  const auto full = notes.take_owed();
  for (const auto& [actor, read] : full) reads += read.reads;
  CHECK(full.size() == ReadNotes::kMaxReaders);
  CHECK(reads == static_cast<std::int64_t>(ReadNotes::kMaxReaders) + 1);
}
