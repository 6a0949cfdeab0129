#pragma once

#include <cstdlib>
#include <random>
#include <string>

#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/log/log.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

namespace driftgate::evidence::testing {

inline schema::EntryDraft draft(std::int64_t time_us, const std::string& text = "x") {
  return {.time_us = time_us,
          .kind = schema::EvidenceKind::state_changed,
          .actor = "driftgate",
          .subject = {.model = "tiny"},
          .body = {{"text", text}}};
}

/// DRIFTGATE_TEST_SEED, or a new one; print it with what fails.
inline std::uint64_t seed_of_run() {
  if (const char* given = std::getenv("DRIFTGATE_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

inline Appended append_one(store::Store& store, const schema::EntryDraft& entry) {
  return store::testing::write(store, [&](store::Tx& tx) { return append(tx, entry); });
}

/// Runs a daemon's log on a folder for some entries.
inline void live(const std::filesystem::path& folder, int entries) {
  auto store = store::testing::open_store(folder);
  auto heads = store::testing::must(HeadPublisher::start(*store, {}));
  for (int i = 0; i < entries; ++i) append_one(*store, draft(i));
}

/// Why a daemon does not start on a folder; empty when it does.
inline std::string refusal(const std::filesystem::path& folder) {
  auto store = store::testing::open_store(folder);
  const auto heads = HeadPublisher::start(*store, {});
  return heads ? "" : heads.error().describe();
}

}  // namespace driftgate::evidence::testing
