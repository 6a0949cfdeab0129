#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// Something that a request has just made, as its transaction commits it.
struct Made {
  std::string_view id{};
  std::string_view json{};     ///< what the request is answered with
  std::uint64_t revision = 0;  ///< for an ETag; 0 without
};

/// What a request adds to each transaction that is run for it: that it is still allowed, and what it made. The
/// store asks the scope that its caller has entered; code between the two knows nothing of it, so that no
/// handler can forget it.
class WriteScope {
 public:
  virtual ~WriteScope() = default;
  /// Runs first in every write, in its transaction. An error undoes the write and is its result.
  virtual Result<void> allow(Reader& reader) = 0;
  /// Runs in the transaction that makes something; an error undoes that.
  virtual Result<void> made(Tx& tx, const Made& made) = 0;
};

/// The scope that this thread writes in, or null: then every write is the daemon's own.
[[nodiscard]] WriteScope* current_write_scope();

/// Enters a scope on this thread until the end of the block; null leaves the one it is in. The store enters
/// it on its writer thread too, while it runs a write of this thread. Whoever hands work to another thread and
/// waits for it enters the scope there.
class EnterWriteScope {
 public:
  explicit EnterWriteScope(WriteScope* scope);
  ~EnterWriteScope();
  EnterWriteScope(const EnterWriteScope&) = delete;
  EnterWriteScope& operator=(const EnterWriteScope&) = delete;

 private:
  WriteScope* before_;
};

/// What was asked for is committed: what this thread writes from now on, to the end of the block that entered the
/// scope, follows from it and is the daemon's own.
void leave_write_scope();

/// Tells the scope of this transaction, if there is one, what was made.
Result<void> note_made(Tx& tx, const Made& made);

}  // namespace driftgate::store
