#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/jobs/file_identity.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// Reads files on several threads: the SHA-256 of each, by the descriptor that was checked. Refuses pickles
/// by content and files that change while they are read.
class HashPool {
 public:
  static constexpr std::size_t kMaxWaiting = 32;  ///< opened files; one more waits

  explicit HashPool(unsigned threads);
  ~HashPool();
  HashPool(const HashPool&) = delete;
  HashPool& operator=(const HashPool&) = delete;

  /// Hands a file over; `into` gets 64 hex digits before `finish` returns, and lives as long. False once a
  /// file has failed.
  bool add(std::string path, base::UniqueFd file, const FileIdentity& identity, std::string* into);
  /// Waits for all; the first failure in time.
  schema::Result<void> finish();

 private:
  struct Task {
    std::string path;
    base::UniqueFd file;
    FileIdentity identity;
    std::string* into = nullptr;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  std::optional<schema::Error> failure_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace driftgate::jobs
