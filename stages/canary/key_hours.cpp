#include "stages/canary/key_hours.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

// Of a key, its periods and those that failed, in hex.
constexpr std::size_t kKeyDigits = 8, kCountDigits = 2, kDigits = kKeyDigits + 2 * kCountDigits;

template <typename Number>
bool read_hex(std::string_view& text, std::size_t digits, Number& number) {
  const char* const end = text.data() + digits;
  const auto [read, error] = std::from_chars(text.data(), end, number, 16);
  text.remove_prefix(digits);
  return error == std::errc{} && read == end;
}

}  // namespace

void KeyHours::observe(std::uint64_t key, bool failed) {
  Key& seen = keys_[static_cast<std::uint32_t>(mix64(key))];
  if (seen.periods == kMostPeriods) return;
  ++seen.periods;
  ++periods_;
  if (!failed) return;
  ++seen.failed;
  ++failed_;
}

void KeyHours::observe_keyless(bool failed) {
  ++periods_;
  ++keyless_;
  failed_ += static_cast<std::uint64_t>(failed);
  keyless_failed_ += static_cast<std::uint64_t>(failed);
}

double KeyHours::upper(double alpha) const {
  const auto n = static_cast<double>(periods_), failed = static_cast<double>(failed_);
  if (periods_ == 0 || failed_ == periods_) return 1;
  const double share = failed / n;
  const auto alone = static_cast<double>(keyless_), alone_failed = static_cast<double>(keyless_failed_);
  double squares = alone;
  double residuals = alone_failed * (1 - share) * (1 - share) + (alone - alone_failed) * share * share;
  for (const auto& [key, seen] : keys_) {
    const auto periods = static_cast<double>(seen.periods);
    const double residual = static_cast<double>(seen.failed) - share * periods;
    squares += periods * periods;
    residuals += residual * residual;
  }
  const auto sample = static_cast<double>(keys());
  // Without a failure nothing is known of their dependence: as if the periods of a key all failed together.
  double independent = n * n / squares;
  if (failed_ > 0 && sample > 1) {
    const double variance = residuals / (n * n) * sample / (sample - 1);
    independent = variance > 0 ? share * (1 - share) / variance : n;
  }
  independent = std::min(independent, n);
  return upper_of_fractional_counts(share * independent, independent, alpha);
}

nlohmann::json KeyHours::to_json() const {
  std::vector<std::pair<std::uint32_t, Key>> sorted(keys_.begin(), keys_.end());
  std::ranges::sort(sorted, {}, &std::pair<std::uint32_t, Key>::first);
  std::string text;
  text.reserve(sorted.size() * kDigits);
  for (const auto& [key, seen] : sorted)
    fmt::format_to(std::back_inserter(text), "{:08x}{:02x}{:02x}", key, seen.periods, seen.failed);
  return {std::move(text), keyless_, keyless_failed_};
}

void KeyHours::restore(const nlohmann::json& json) {
  *this = {};
  json.at(1).get_to(keyless_);
  json.at(2).get_to(keyless_failed_);
  periods_ = keyless_;
  failed_ = keyless_failed_;
  std::string_view text = json.at(0).get_ref<const std::string&>();
  const auto damaged = [&json] { return nlohmann::json::other_error::create(501, "no list of keys", &json); };
  if (text.size() % kDigits != 0 || keyless_failed_ > keyless_) throw damaged();
  while (!text.empty()) {
    std::uint32_t key = 0;
    Key seen;
    if (!read_hex(text, kKeyDigits, key) || !read_hex(text, kCountDigits, seen.periods) ||
        !read_hex(text, kCountDigits, seen.failed) || seen.failed > seen.periods)
      throw damaged();
    keys_[key] = seen;
    periods_ += seen.periods;
    failed_ += seen.failed;
  }
}

}  // namespace driftgate::stages
