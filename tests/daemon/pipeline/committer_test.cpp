#include "daemon/pipeline/committer.hpp"

#include <doctest/doctest.h>

#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

using namespace driftgate;
using namespace driftgate::pipeline;
using namespace driftgate::store::testing;

TEST_CASE("the times of the entries of one transaction do not go back, whenever they were drafted") {
  TempDir dir;
  const auto store = open_store(dir.path());
  StoreCommitter committer(*store);
  const auto events = committer.commit("test", [](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    for (const std::int64_t time_us : {20, 30, 10, 40}) {
      schema::EntryDraft draft{.time_us = time_us, .kind = schema::EvidenceKind::clock_stepped, .actor = "a"};
      draft.body = {{"step_us", 1}, {"offset_us", 1}};
      TRY(entries.add(tx, std::move(draft)));
    }
    return {};
  });
  REQUIRE(events);
  REQUIRE(events->size() == 4);
  const char* const times[] = {"\"time_us\":20", "\"time_us\":30", "\"time_us\":30", "\"time_us\":40"};
  for (std::size_t i = 0; i < 4; ++i)
    CHECK_MESSAGE((*events)[i].json.find(times[i]) != std::string::npos, (*events)[i].json);
}
