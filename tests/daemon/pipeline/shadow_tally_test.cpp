#include "daemon/pipeline/stages/shadow_tally.hpp"

#include <doctest/doctest.h>

using namespace driftgate;
using pipeline::ShadowTally;

namespace {

const schema::SliceWhere kGerman{{"language", "de"}};

/// Requests of the keys [first, first + count), every fourth in German.
route::Window window(std::uint64_t first, std::uint64_t count) {
  route::Window out;
  for (std::uint64_t key = first; key < first + count; ++key) {
    route::Observation seen;
    seen.key_hash = key;
    seen.slice = key % 4 == 0 ? "domain=code;language=de" : "language=en";
    out.observations.push_back(seen);
  }
  return out;
}

}  // namespace

TEST_CASE("a shadow stage has enough when the mirrored share of its keys is what each clause needs") {
  ShadowTally tally;
  CHECK(tally.enough({{{}, 0}}, 0));
  CHECK_FALSE(tally.enough({{{}, 1}}, 0));
  tally.add(window(0, 1'000), {kGerman});
  CHECK(tally.enough({{{}, 200}}, 200));
  CHECK_FALSE(tally.enough({{{}, 201}}, 200));
  // A fifth of the 250 German keys.
  CHECK(tally.enough({{{}, 200}, {kGerman, 50}}, 200));
  CHECK_FALSE(tally.enough({{{}, 200}, {kGerman, 51}}, 200));
}

TEST_CASE("requests of keys that were seen before add no key, and excluded ones do not count") {
  ShadowTally tally;
  tally.add(window(0, 100), {});
  tally.add(window(0, 100), {});
  // 200 requests, 100 of them mirrored: half of 100 keys.
  CHECK(tally.enough({{{}, 50}}, 100));
  CHECK_FALSE(tally.enough({{{}, 51}}, 100));
  route::Window excluded = window(500, 100);
  for (auto& seen : excluded.observations) seen.outcome = route::Outcome::excluded;
  tally.add(excluded, {});
  CHECK_FALSE(tally.enough({{{}, 101}}, 300));
}

TEST_CASE("the counts are kept as text and go on from it") {
  ShadowTally tally;
  tally.add(window(0, 400), {kGerman});
  ShadowTally again(tally.text());
  CHECK(again.text() == tally.text());
  CHECK(again.enough({{{}, 400}, {kGerman, 100}}, 400));
  again.add(window(400, 400), {kGerman});
  CHECK(again.enough({{{}, 800}, {kGerman, 200}}, 800));
}

TEST_CASE("counts that are damaged are counted anew") {
  for (const char* text : {"", "[]", "{", R"({"keys":{"":9}})", R"({"keys":{"":"9"},"requests":9})",
                           R"({"keys":1,"requests":9})"}) {
    CAPTURE(text);
    CHECK_FALSE(ShadowTally(text).enough({{{}, 1}}, 9));
  }
  CHECK(ShadowTally(R"({"keys":{"":9},"requests":9})").enough({{{}, 9}}, 9));
}
