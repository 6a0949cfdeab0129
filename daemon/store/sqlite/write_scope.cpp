#include "daemon/store/sqlite/write_scope.hpp"

#include <utility>

namespace driftgate::store {

namespace {
thread_local WriteScope* current = nullptr;
}  // namespace

WriteScope* current_write_scope() {
  return current;
}

EnterWriteScope::EnterWriteScope(WriteScope* scope) : before_(std::exchange(current, scope)) {}

EnterWriteScope::~EnterWriteScope() {
  current = before_;
}

void leave_write_scope() {
  current = nullptr;
}

bool is_answer_wanted() {
  return current != nullptr && current->wants_answer();
}

Result<void> note_made(Tx& tx, const Made& made) {
  return current == nullptr ? Result<void>{} : current->made(tx, made);
}

}  // namespace driftgate::store
