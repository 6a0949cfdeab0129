#include "daemon/pipeline/read/contract_cache.hpp"

#include <vector>

#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/store/promotions/of_many.hpp"

namespace driftgate::pipeline {

schema::Result<ContractCache::Entries> ContractCache::of(store::Reader& reader,
                                                         std::span<const std::string> digests) {
  Entries found;
  std::vector<std::string> missing;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& digest : digests) {
      const auto known = known_.find(digest);
      if (known != known_.end())
        found.insert(*known);
      else
        missing.push_back(digest);
    }
  }
  const auto rows = TRY(store::contracts_of(reader, missing));
  for (const auto& row : rows) {
    auto parsed = parse_contract_row(row);
    found[row.digest] = {row.name, parsed ? std::move(*parsed) : nullptr};
  }
  const std::lock_guard lock(mutex_);
  if (known_.size() + rows.size() > kMaxEntries) known_.clear();
  for (const auto& row : rows) known_.insert_or_assign(row.digest, found[row.digest]);
  return found;
}

}  // namespace driftgate::pipeline
