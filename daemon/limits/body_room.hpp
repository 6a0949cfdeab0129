#pragma once

#include <cstddef>
#include <string>

#include "daemon/limits/connection_table.hpp"

namespace driftgate::limits {

/// Room in `buffer` for up to `step` more bytes of a body of `length` bytes, charged to the connection's
/// place. The buffer doubles with what has arrived, whatever was announced, and never exceeds `length`. False
/// when the memory of unfinished bodies is used up.
[[nodiscard]] bool make_body_room(ConnectionTable::Place& place, std::string& buffer, std::size_t length,
                                  std::size_t step);

/// Takes the first `length` bytes off `buffer`; without a copy when they are all of it.
[[nodiscard]] std::string take_front(std::string& buffer, std::size_t length);

}  // namespace driftgate::limits
