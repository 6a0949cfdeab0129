#include "examples/tinylm/src/faults.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/examples/tinylm/fixtures.hpp"

using namespace tinylm;

TEST_CASE("failures begin after the stated number and keep their share") {
  Faults faults({.fail_share = 0.25, .fail_after_requests = 1000, .seed = 5});
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(faults.next("").fails);
  int failed = 0;
  for (int i = 0; i < 4000; ++i) failed += faults.next("").fails ? 1 : 0;
  // Binomial(4000, 1/4): 1000 with standard deviation 27.4; five of them either side. Seed 5 is fixed.
  CHECK(failed > 863);
  CHECK(failed < 1137);
}

TEST_CASE("the same seed makes the same choices") {
  Faults a({.fail_share = 0.5, .garbage_share = 0.5, .seed = 9}),
      b({.fail_share = 0.5, .garbage_share = 0.5, .seed = 9});
  bool both_kinds_differ = false;
  for (int i = 0; i < 200; ++i) {
    const FaultPlan x = a.next(""), y = b.next("");
    CHECK(x.fails == y.fails);
    CHECK(x.garbage == y.garbage);
    both_kinds_differ |= x.fails != x.garbage;
  }
  CHECK(both_kinds_differ);
}

TEST_CASE("with a text, only requests that hold it fail") {
  Faults faults({.fail_share = 1, .fail_text = "der"});
  CHECK(faults.next(R"({"prompt": "der Weg"})").fails);
  CHECK_FALSE(faults.next(R"({"prompt": "the way"})").fails);
}

TEST_CASE("with a file, failures begin once it exists") {
  const tinylm_tests::TemporaryFolder folder;
  Faults faults({.fail_share = 1, .fail_file = folder.file("fail")});
  CHECK_FALSE(faults.next("").fails);
  std::ofstream(folder.file("fail")) << "now";
  CHECK(faults.next("").fails);
}
