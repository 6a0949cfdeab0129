#pragma once

#include "daemon/store/store.hpp"

namespace driftgate::store {

/// One query in a read transaction of its own: `find(reader, args...)`.
template <typename Find, typename... Args>
auto look_up(Store& store, Find find, const Args&... args) {
  return store.read([&](Reader& reader) { return find(reader, args...); });
}

}  // namespace driftgate::store
