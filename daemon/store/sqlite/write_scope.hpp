#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// Something that a request has just made.
struct Made {
  std::string_view id{};
  std::string_view json{};     ///< what the request is answered with
  std::uint64_t revision = 0;  ///< for an ETag; 0 without
};

/// What a request adds to each transaction that runs for it: the check that it is still allowed, and a record
/// of what it made. The store calls the scope that its caller has entered. Code between the two does not know
/// of it, so that no handler can forget it.
class WriteScope {
 public:
  virtual ~WriteScope() = default;
  /// Runs first in every write, in its transaction. An error undoes the write and is its result.
  virtual Result<void> allow(Reader& reader) = 0;
  /// Runs in the transaction that makes something; an error undoes that.
  virtual Result<void> made(Tx& tx, const Made& made) = 0;
  /// Whether `made` has a use for the answer. Making one takes time in the only writer.
  [[nodiscard]] virtual bool wants_answer() const { return true; }
  /// Whether `made` refused what was made, so that it must not be tried again; other errors of a write say
  /// that it could not be carried out.
  [[nodiscard]] virtual bool refused() const { return false; }
};

/// The scope that this thread writes in, or null: then every write is the daemon's own.
[[nodiscard]] WriteScope* current_write_scope();

/// Enters a scope on this thread until the end of the block; null leaves the current one. The store enters it
/// on its writer thread too, while it runs a write of this thread. Code that hands work to another thread and
/// waits for it must enter the scope there.
class EnterWriteScope {
 public:
  explicit EnterWriteScope(WriteScope* scope);
  ~EnterWriteScope();
  EnterWriteScope(const EnterWriteScope&) = delete;
  EnterWriteScope& operator=(const EnterWriteScope&) = delete;

 private:
  WriteScope* before_;
};

/// The requested change is committed. What this thread writes from now on, until the end of the block that
/// entered the scope, is the daemon's own.
void leave_write_scope();

/// Whether this thread writes in a scope that wants the answer to its request.
[[nodiscard]] bool is_answer_wanted();

/// Tells the scope of this transaction, if there is one, what was made.
Result<void> note_made(Tx& tx, const Made& made);

}  // namespace driftgate::store
