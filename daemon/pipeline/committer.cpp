#include "daemon/pipeline/committer.hpp"

#include <algorithm>

#include "daemon/evidence/log/log.hpp"

namespace driftgate::pipeline {

schema::Result<std::int64_t> Entries::add(store::Tx& tx, schema::EntryDraft draft) {
  latest_us_ = draft.time_us = std::max(draft.time_us, latest_us_);
  auto appended = TRY(evidence::append(tx, draft));
  events_.push_back({static_cast<std::uint64_t>(appended.seq), std::string(schema::to_string(draft.kind)),
                     draft.subject.model.value_or(""), draft.subject.promotion.value_or(""),
                     std::move(appended.bytes)});
  return appended.seq;
}

schema::Result<std::vector<Event>> StoreCommitter::commit(std::string_view what, const Work& work) {
  return store_.write(what, [&](store::Tx& tx) -> schema::Result<std::vector<Event>> {
    Entries entries;
    TRY(work(tx, entries));
    return entries.events();
  });
}

}  // namespace driftgate::pipeline
