#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

#include "daemon/pipeline/service.hpp"
#include "daemon/store/store.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::pipeline {

/// Evidence entries appended in one transaction, for those who listen.
class Entries {
 public:
  /// Appends the entry in `tx` and remembers its bytes; returns its sequence number. What was drafted earlier
  /// than an entry before it gets that entry's time: the times of one transaction do not go back.
  schema::Result<std::int64_t> add(store::Tx& tx, schema::EntryDraft draft);
  [[nodiscard]] const std::vector<Event>& events() const { return events_; }
  /// Without entries of its own, for the next of several changes in one transaction.
  [[nodiscard]] Entries following() const {
    Entries next;
    next.latest_us_ = latest_us_;
    return next;
  }
  /// Takes over what was appended after it.
  void join(Entries&& later) {
    std::ranges::move(later.events_, std::back_inserter(events_));
    latest_us_ = later.latest_us_;
  }
  [[nodiscard]] std::int64_t last() const {
    return events_.empty() ? -1 : static_cast<std::int64_t>(events_.back().seq);
  }

 private:
  std::vector<Event> events_;
  std::int64_t latest_us_ = 0;
};

/// One transaction's work: rows and entries together. Runs on the writer thread, so it captures by value or
/// refers to what outlives the call.
using Work = std::function<schema::Result<void>(store::Tx&, Entries&)>;

/// Commits work. A seam so that tests can delay or fail a COMMIT.
class Committer {
 public:
  virtual ~Committer() = default;
  /// The entries of the transaction, once it is durable. Safe from any thread.
  virtual schema::Result<std::vector<Event>> commit(std::string_view what, const Work& work) = 0;
};

class StoreCommitter final : public Committer {
 public:
  explicit StoreCommitter(store::Store& store) : store_(store) {}
  schema::Result<std::vector<Event>> commit(std::string_view what, const Work& work) override;

 private:
  store::Store& store_;
};

}  // namespace driftgate::pipeline
