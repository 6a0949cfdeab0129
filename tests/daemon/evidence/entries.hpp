#pragma once

#include <string>

#include "daemon/evidence/log.hpp"
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

inline Appended append_one(store::Store& store, const schema::EntryDraft& entry) {
  return store::testing::write(store, [&](store::Tx& tx) { return append(tx, entry); });
}

}  // namespace driftgate::evidence::testing
