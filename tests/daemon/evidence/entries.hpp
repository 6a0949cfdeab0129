#pragma once

#include <cstdlib>
#include <random>
#include <string>

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

}  // namespace driftgate::evidence::testing
