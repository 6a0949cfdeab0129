#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/base/engine_access.hpp"
#include "daemon/route/relay/upstream_tls.hpp"

namespace driftgate::route {

/// What an engine's key file and CA file hold. They are read again when they were replaced, so that a key is
/// rotated without a word to the router; until a new file can be read, what the one before it held stays in
/// force. Safe from any thread.
class EnginePass {
 public:
  /// What is in force.
  struct State {
    std::string key_name{};  ///< the header that shows the key; empty: the engine asks for none
    std::string key_line{};  ///< that header, with the end of its line
    TlsTrust trust{};        ///< null over http
    bool usable = true;      ///< false: the files could not be read yet, so the engine cannot be asked
  };

  /// Reads the files; what is wrong with them is logged. `url` is for messages.
  EnginePass(std::string url, base::EngineAccess access, bool tls);

  [[nodiscard]] std::shared_ptr<const State> state() const;
  [[nodiscard]] const base::EngineAccess& access() const { return access_; }
  /// Reads the files again if they were replaced. One thread calls it.
  void refresh();
  /// How a handshake went: why it failed, or "". Logged when it is another reason than before.
  void note_handshake(const std::string& fault);

 private:
  /// Tells whether a file is still the same.
  struct Stamp {
    std::uint64_t device = 0, inode = 0;
    std::int64_t size = -1, modified_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  [[nodiscard]] static Stamp stamp_of(const std::string& path);
  void load();

  const std::string url_;
  const base::EngineAccess access_;
  const bool tls_;
  Stamp key_stamp_, ca_stamp_;  ///< of what was looked at last
  Stamp trusted_;               ///< of the CA file whose CAs are in force
  mutable std::mutex mutex_;    ///< guards what follows
  std::shared_ptr<const State> state_;
  std::string handshake_fault_;
};

}  // namespace driftgate::route
