#include "daemon/jobs/hash_pool.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "daemon/base/durable_file.hpp"
#include "daemon/jobs/pickle.hpp"
#include "schema/sha256.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr std::size_t kReadBytes = 1u << 20;

schema::Result<std::string> hash_file(const std::string& path, const base::UniqueFd& file,
                                      const FileIdentity& identity, std::span<char> buffer) {
  schema::Sha256 hash;
  std::string head;
  char last = 0;
  while (true) {
    const auto got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::file_failure("read", path);
    if (got == 0) break;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (head.size() < kPickleHeadBytes) head += bytes.substr(0, kPickleHeadBytes - head.size());
    last = bytes.back();
    hash.update(bytes);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || FileIdentity::of(status) != identity) {
    return schema::fail(ErrorCode::conflict,
                        fmt::format("{} changed while it was hashed: try again when nobody writes it", path));
  }
  TRY(refuse_pickle(path, why_pickle_bytes(head, last)));
  return schema::to_hex(hash.finish());
}

}  // namespace

HashPool::HashPool(unsigned threads) {
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) threads_.emplace_back([this] { work(); });
}

HashPool::~HashPool() {
  (void)finish();
}

bool HashPool::add(std::string path, base::UniqueFd file, const FileIdentity& identity, std::string* into) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.size() < kMaxWaiting || failure_; });
  if (failure_) return false;
  waiting_.push_back({std::move(path), std::move(file), identity, into});
  changed_.notify_all();
  return true;
}

schema::Result<void> HashPool::finish() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  if (failure_) return std::unexpected(*failure_);
  return {};
}

void HashPool::work() {
  std::vector<char> buffer(kReadBytes);  // for all files: a checkpoint may have thousands of small ones
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !waiting_.empty() || closed_ || failure_; });
    if (failure_ || waiting_.empty()) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    lock.unlock();
    auto hash = hash_file(task.path, task.file, task.identity, buffer);
    lock.lock();
    if (hash) {
      *task.into = std::move(*hash);
    } else if (!failure_) {
      failure_ = hash.error();
      changed_.notify_all();
    }
  }
}

}  // namespace driftgate::jobs
