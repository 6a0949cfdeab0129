#include "daemon/store/id.hpp"

#include <sys/random.h>

#include <stdexcept>

namespace driftgate::store {

namespace {
constexpr std::string_view kCrockford = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr int kTimeDigits = 10;
}  // namespace

std::string make_id(std::string_view prefix, std::int64_t time_us, const IdRandom& random) {
  constexpr std::uint64_t kMask48 = (1ull << 48) - 1;
  const std::uint64_t milliseconds = static_cast<std::uint64_t>(time_us / 1'000) & kMask48;
  std::string id(prefix);
  id += '-';
  for (int digit = kTimeDigits - 1; digit >= 0; --digit) id += kCrockford[milliseconds >> (5 * digit) & 31];
  // Two halves of 40 bits, eight digits each.
  for (std::size_t half = 0; half < random.size(); half += 5) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 5; ++i) bits = bits << 8 | random[half + i];
    for (int digit = 7; digit >= 0; --digit) id += kCrockford[bits >> (5 * digit) & 31];
  }
  return id;
}

IdRandom secure_id_random() {
  IdRandom random;
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    throw std::runtime_error("cannot get random numbers from the kernel");
  }
  return random;
}

}  // namespace driftgate::store
