#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "daemon/store/sqlite/sql.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {

/// Contracts as they are shown in lists: parsed once, since a registered contract never changes. Thread-safe.
class ContractCache {
 public:
  struct Entry {
    std::string name;
    std::shared_ptr<const schema::Contract> contract;  ///< null: what is stored cannot be read
  };
  using Entries = std::map<std::string, Entry>;

  /// Those of the digests that are stored.
  [[nodiscard]] schema::Result<Entries> of(store::Reader& reader, std::span<const std::string> digests);

 private:
  static constexpr std::size_t kMaxEntries = 256;
  std::mutex mutex_;
  Entries known_;
};

}  // namespace driftgate::pipeline
