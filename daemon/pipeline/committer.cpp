#include "daemon/pipeline/committer.hpp"

#include "daemon/evidence/log/log.hpp"

namespace driftgate::pipeline {

schema::Result<std::int64_t> Entries::add(store::Tx& tx, const schema::EntryDraft& draft) {
  auto appended = evidence::append(tx, draft);
  if (!appended) return std::unexpected(appended.error());
  events_.push_back({static_cast<std::uint64_t>(appended->seq), std::string(schema::to_string(draft.kind)),
                     draft.subject.model.value_or(""), draft.subject.promotion.value_or(""),
                     std::move(appended->bytes)});
  return appended->seq;
}

schema::Result<std::vector<Event>> StoreCommitter::commit(std::string_view what, const Work& work) {
  return store_.write(what, [&](store::Tx& tx) -> schema::Result<std::vector<Event>> {
    Entries entries;
    auto done = work(tx, entries);
    if (!done) return std::unexpected(done.error());
    return entries.events();
  });
}

}  // namespace driftgate::pipeline
