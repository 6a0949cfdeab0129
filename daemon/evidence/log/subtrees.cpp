#include "daemon/evidence/log/subtrees.hpp"

#include <algorithm>
#include <bit>

namespace driftgate::evidence {

std::vector<Subtree> subtrees_of(std::uint64_t begin, std::uint64_t end) {
  std::vector<Subtree> parts;
  while (begin < end) {
    const auto fits = static_cast<unsigned>(std::bit_width(end - begin)) - 1;
    const unsigned level = begin == 0 ? fits : std::min(fits, static_cast<unsigned>(std::countr_zero(begin)));
    parts.push_back({level, begin >> level});
    begin += std::uint64_t{1} << level;
  }
  return parts;
}

void SubtreeStack::push(unsigned level, const Hash& hash) {
  size_ += std::uint64_t{1} << level;
  Part part{level, hash};
  while (!parts_.empty() && parts_.back().level == part.level) {
    part = {part.level + 1, node_hash(parts_.back().hash, part.hash)};
    parts_.pop_back();
  }
  parts_.push_back(part);
}

Hash SubtreeStack::root() const {
  if (parts_.empty()) return empty_root();
  Hash hash = parts_.back().hash;
  for (auto part = parts_.rbegin() + 1; part != parts_.rend(); ++part) hash = node_hash(part->hash, hash);
  return hash;
}

}  // namespace driftgate::evidence
