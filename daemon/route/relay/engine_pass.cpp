#include "daemon/route/relay/engine_pass.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <utility>

namespace driftgate::route {

EnginePass::EnginePass(std::string url, base::EngineAccess access, bool tls)
    : url_(std::move(url)),
      access_(std::move(access)),
      tls_(tls),
      key_stamp_(stamp_of(access_.key_file)),
      ca_stamp_(stamp_of(access_.ca_file)) {
  load();
}

std::shared_ptr<const EnginePass::State> EnginePass::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

EnginePass::Stamp EnginePass::stamp_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  return {status.st_dev, status.st_ino, status.st_size,
          status.st_mtim.tv_sec * kNsPerS + status.st_mtim.tv_nsec};
}

void EnginePass::refresh() {
  // Taken before the files are read: what is written meanwhile shows as a change the next time.
  const auto key = stamp_of(access_.key_file);
  const auto ca = stamp_of(access_.ca_file);
  if (key == key_stamp_ && ca == ca_stamp_) return;
  key_stamp_ = key;
  ca_stamp_ = ca;
  load();
}

/// Kept connections stay usable under a new key as long as whom they trust is the same.
void EnginePass::load() {
  const auto before = state();
  const bool had = before != nullptr && before->usable;
  auto next = std::make_shared<State>();
  auto key = base::read_key(access_);
  std::string fault;
  if (!key) {
    fault = key.error().describe();
  } else if (*key) {
    next->key_name = (*key)->name;
    next->key_line = (*key)->name + ": " + (*key)->value + "\r\n";
  }
  if (tls_ && had && trusted_ == ca_stamp_) {
    next->trust = before->trust;
  } else if (tls_) {
    auto trust = load_trust(access_.ca_file);
    if (trust)
      next->trust = std::move(*trust);
    else
      fault = trust.error().describe();
  }
  if (!fault.empty()) {
    spdlog::error("router: the engine at {}: {}; {}", url_, fault,
                  had ? "what was read before stays in force" : "it cannot be asked until this is mended");
    if (had) return;
    next->usable = false;
  } else if (before != nullptr) {
    spdlog::info("router: the files of the engine at {} were replaced and are in force", url_);
  }
  trusted_ = ca_stamp_;
  const std::lock_guard lock(mutex_);
  state_ = std::move(next);
}

void EnginePass::note_handshake(const std::string& fault) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(handshake_fault_, fault) == fault) return;
  }
  if (fault.empty())
    spdlog::info("router: TLS with the engine at {} works again", url_);
  else
    spdlog::error("router: no TLS connection to the engine at {}: {}", url_, fault);
}

}  // namespace driftgate::route
