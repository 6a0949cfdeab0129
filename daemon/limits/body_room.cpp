#include "daemon/limits/body_room.hpp"

#include <algorithm>
#include <utility>

namespace driftgate::limits {

bool make_body_room(ConnectionTable::Place& place, std::string& buffer, std::size_t length, std::size_t step) {
  const std::size_t needed = std::min(length, buffer.size() + step);
  if (buffer.capacity() >= needed) return place.hold(buffer.capacity());
  const std::size_t next = std::min(length, std::max(needed, 2 * buffer.capacity()));
  if (!place.hold(next)) return false;
  std::string larger;  // growing in place would double what is there, beyond `length`
  larger.reserve(next);
  larger += buffer;
  buffer = std::move(larger);
  return true;
}

std::string take_front(std::string& buffer, std::size_t length) {
  if (buffer.size() <= length) return std::exchange(buffer, {});
  std::string front = buffer.substr(0, length);
  buffer.erase(0, length);
  return front;
}

}  // namespace driftgate::limits
