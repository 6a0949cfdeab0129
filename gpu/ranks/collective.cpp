#include "gpu/ranks/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::string_view kRank = "rank ";

}  // namespace

schema::Error rank_error(ErrorCode code, const char* operation, const Wait& wait, const std::string& cause,
                         std::uint32_t rank, std::uint32_t size) {
  return {code, fmt::format("{} ({}): {}", operation, wait.what, cause),
          fmt::format("{}{} of {}", kRank, rank, size), nullptr};
}

schema::Error at_rank(const schema::Error& error, std::uint32_t rank, std::uint32_t size) {
  if (error.where.starts_with(kRank)) return error;
  return {error.code, error.describe(), fmt::format("{}{} of {}", kRank, rank, size), nullptr};
}

std::optional<std::uint32_t> rank_of(const schema::Error& error) {
  if (!error.where.starts_with(kRank)) return std::nullopt;
  std::uint32_t rank = 0;
  const char* digits = error.where.data() + kRank.size();
  const auto [end, failure] = std::from_chars(digits, error.where.data() + error.where.size(), rank);
  return failure == std::errc{} && end != digits ? std::optional(rank) : std::nullopt;
}

void Collective::close(int) {}

Result<std::uint64_t> Collective::begin(Gathering /*gathering*/, const Wait& wait,
                                        std::span<const std::byte> /*mine*/) {
  return schema::fail(ErrorCode::internal, name() + " does not exchange in steps: " + wait.what);
}

Result<void> Collective::finish(std::uint64_t /*number*/, const Wait& wait, std::span<std::byte> /*all*/) {
  return schema::fail(ErrorCode::internal, name() + " does not exchange in steps: " + wait.what);
}

Result<void> Collective::barrier(const Wait& wait) {
  const std::byte mine{};
  std::vector<std::byte> all(size());
  return all_gather(wait, {&mine, 1}, all);
}

Result<std::vector<std::string>> Collective::gather_text(const Wait& wait, const std::string& mine) {
  if (mine.size() > kMaxExchangeBytes) {
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("{}: {} bytes are more than the {} that a rank may exchange", wait.what,
                                    mine.size(), kMaxExchangeBytes));
  }
  const std::uint64_t own = mine.size();
  std::vector<std::uint64_t> sizes(size());
  if (auto ok = all_gather(wait, std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(sizes)));
      !ok) {
    return std::unexpected(ok.error());
  }
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(sizes));
  std::string padded = mine;
  padded.resize(longest);
  std::string all(rank() == 0 ? longest * size() : 0, '\0');
  TRY(gather(wait, std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all))));
  std::vector<std::string> out;
  for (std::size_t from = 0; from < size() && rank() == 0; ++from) {
    out.push_back(all.substr(from * longest, static_cast<std::size_t>(sizes[from])));
  }
  return out;
}

}  // namespace driftgate::gpu
