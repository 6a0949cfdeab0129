#include "daemon/evidence/verify/background_check.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/store/sqlite/connection.hpp"
#include "tests/daemon/evidence/entries.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;

namespace {

constexpr std::chrono::seconds kPatience{60};

Checkpoint newest_head(HeadPublisher& heads) {
  return must(read_checkpoint(must(heads.signed_head()))).checkpoint;
}

CheckProgress wait_finished(const BackgroundCheck& check) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto progress = check.progress();
  while (!progress.is_finished && !progress.failure && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    progress = check.progress();
  }
  return progress;
}

void fill(store::Store& store, int entries) {
  write(store, [&](store::Tx& tx) -> Result<void> {
    for (int i = 0; i < entries; ++i) must(append(tx, draft(i)));
    return {};
  });
}

}  // namespace

TEST_CASE_FIXTURE(StoreFixture, "the check of a running daemon reads each entry while others are appended") {
  auto heads = must(HeadPublisher::start(*store, {}));
  fill(*store, 5'000);
  const BackgroundCheck check(*store, newest_head(*heads), [](const Difference&) { FAIL("a difference"); });
  for (int i = 0; i < 200; ++i) append_one(*store, draft(i));
  const auto progress = wait_finished(check);
  CHECK(progress.is_finished);
  CHECK(progress.entries == 5'000);
  CHECK(progress.entries_total == 5'000);
  CHECK(progress.differences == 0);
}

TEST_CASE("the check of a running daemon names what was changed, once, and goes on behind it") {
  TempDir dir;
  {
    auto store = open_store(dir.path());
    auto heads = must(HeadPublisher::start(*store, {}));
    fill(*store, 3'000);
  }
  change_database(dir.path(),
                  "DROP TRIGGER entries_no_update; UPDATE entries SET "
                  "bytes = CAST(replace(bytes, 'x', 'y') AS BLOB) WHERE seq IN (100, 2500)");
  auto store = open_store(dir.path());
  auto heads = must(HeadPublisher::start(*store, {}));
  std::vector<Difference> told;
  CheckProgress progress;
  {
    const BackgroundCheck check(*store, newest_head(*heads),
                                [&](const Difference& difference) { told.push_back(difference); });
    progress = wait_finished(check);
  }
  CHECK(progress.is_finished);
  CHECK(progress.entries == 3'000);
  REQUIRE(progress.named.size() >= 2);
  CHECK(progress.named[0].where == "evidence entries 64 to 127");
  CHECK(progress.named[1].where == "evidence entries 2496 to 2559");
  CHECK(told == progress.named);
}

TEST_CASE_FIXTURE(StoreFixture, "the check of a running daemon ends when it is stopped, wherever it is") {
  auto heads = must(HeadPublisher::start(*store, {}));
  fill(*store, 20'000);
  const auto head = newest_head(*heads);
  for (int i = 0; i < 5; ++i) {
    const BackgroundCheck check(*store, head, [](const Difference&) {});
    CHECK(check.progress().entries_total == 20'000);
  }
}
