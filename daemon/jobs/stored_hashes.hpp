#pragma once

#include <functional>

#include "daemon/jobs/file_identity.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::jobs {

/// The cache over the daemon's store, which must outlive it.
class StoredHashes final : public HashCache {
 public:
  StoredHashes(store::Store& store, std::function<std::int64_t()> now_us)
      : store_(store), now_us_(std::move(now_us)) {}
  std::optional<std::string> find(const FileIdentity& identity) override;
  schema::Result<void> put(const std::vector<std::pair<FileIdentity, std::string>>& hashes) override;

 private:
  store::Store& store_;
  std::function<std::int64_t()> now_us_;
};

}  // namespace driftgate::jobs
