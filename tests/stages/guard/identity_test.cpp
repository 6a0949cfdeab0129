#include "stages/guard/identity.hpp"

#include <doctest/doctest.h>

using namespace driftgate::stages;

namespace {
const Identity kPromoted{{"version", "0.7.1"}, {"model", "m"}, {"flags", "--dtype bf16"}};

Identity with(const std::string& name, const std::string& value) {
  Identity identity = kPromoted;
  identity[name] = value;
  return identity;
}
}  // namespace

TEST_CASE(
    "what an engine tells otherwise, or no longer, is a difference, and what it tells besides is none") {
  CHECK(identity_changes(kPromoted, kPromoted).empty());
  CHECK(identity_changes(kPromoted, with("uptime", "3")).empty());
  const auto changed = identity_changes(kPromoted, with("flags", "--dtype fp8"));
  REQUIRE(changed.size() == 1);
  CHECK(changed[0] == IdentityChange{"flags", "--dtype bf16", "--dtype fp8"});
  Identity less = kPromoted;
  less.erase("version");
  const auto gone = identity_changes(kPromoted, less);
  REQUIRE(gone.size() == 1);
  CHECK(gone[0] == IdentityChange{"version", "0.7.1", ""});
}

TEST_CASE("a difference is told once, when it was seen twice in a row") {
  IdentityWatch watch(kPromoted);
  CHECK(watch.observe(kPromoted).empty());
  CHECK(watch.observe(with("version", "0.8")).empty());
  CHECK(watch.observe(kPromoted).empty());
  CHECK(watch.observe(with("version", "0.8")).empty());
  CHECK(watch.observe(with("version", "0.8")).size() == 1);
  CHECK(watch.told());
  CHECK(watch.observe(with("version", "0.8")).empty());
  CHECK(watch.last().size() == 1);
  // Another difference is news, and so is the same one after it had gone.
  CHECK(watch.observe(with("version", "0.9")).empty());
  CHECK(watch.observe(with("version", "0.9")).size() == 1);
  CHECK(watch.observe(kPromoted).empty());
  CHECK_FALSE(watch.told());
  CHECK(watch.observe(with("version", "0.9")).empty());
  CHECK(watch.observe(with("version", "0.9")).size() == 1);
}

TEST_CASE("a watch goes on from what was kept of it") {
  IdentityWatch watch(kPromoted);
  (void)watch.observe(with("model", "n"));
  IdentityWatch read(kPromoted);
  read.continue_from(watch.last(), watch.told());
  CHECK(read.observe(with("model", "n")).size() == 1);
  IdentityWatch later(kPromoted);
  later.continue_from(read.last(), read.told());
  CHECK(later.observe(with("model", "n")).empty());
}
