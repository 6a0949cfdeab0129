#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "daemon/evidence/audit/audit.hpp"
#include "daemon/evidence/audit/audit_json.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using nlohmann::json;
using store::Reader;

namespace {

constexpr std::size_t kMaxSeedBytes = 200;

struct Drawn {
  Hash order{};
  std::int64_t seq = 0;
  std::string bytes{};
};

Result<void> check(const SampleRequest& request) {
  if (request.seed.empty() || request.seed.size() > kMaxSeedBytes) {
    return schema::failf(schema::ErrorCode::invalid_argument,
                         "a seed must have 1 to {} bytes; choose it before you look at the log",
                         kMaxSeedBytes);
  }
  if (request.count < 1 || request.count > kMaxSampled) {
    return schema::failf(schema::ErrorCode::invalid_argument, "a sample must have 1 to {} entries",
                         kMaxSampled);
  }
  return {};
}

/// Keeps the smallest ones, as a heap with the largest of them first.
void draw(std::vector<Drawn>& kept, std::size_t count, const std::string& seed, StoredEntry& entry) {
  Drawn drawn{schema::sha256(fmt::format("{}:{}", seed, entry.seq)), entry.seq, {}};
  const auto before = [](const Drawn& a, const Drawn& b) { return a.order < b.order; };
  if (kept.size() == count) {
    if (!before(drawn, kept.front())) return;
    std::ranges::pop_heap(kept, before);
    kept.pop_back();
  }
  drawn.bytes = std::move(entry.bytes);
  kept.push_back(std::move(drawn));
  std::ranges::push_heap(kept, before);
}

}  // namespace

Result<std::string> sample(Reader& reader, const SampleRequest& request) {
  TRY(check(request));
  auto size = TRY(tree_size(reader));
  if (request.size && *request.size > size) {
    return schema::failf(schema::ErrorCode::invalid_argument, "the log has {} entries, not {}", size,
                         *request.size);
  }
  const std::uint64_t drawn_from = request.size.value_or(size);
  EntryFilter filter = request.filter;
  filter.newest_first = false;
  filter.cursor.reset();
  filter.limit = kMaxPage;
  std::vector<Drawn> kept;
  std::size_t entries = 0;
  for (bool more = true; more;) {
    auto page = TRY(query_entries(reader, filter));
    for (StoredEntry& entry : page.entries) {
      if (static_cast<std::uint64_t>(entry.seq) >= drawn_from) break;
      ++entries;
      draw(kept, request.count, request.seed, entry);
    }
    more = page.next && static_cast<std::uint64_t>(*page.next) + 1 < drawn_from;
    filter.cursor = page.next;
    if (entries > kMaxSamplePopulation) {
      return schema::failf(schema::ErrorCode::limit_exceeded,
                           "a sample is drawn from at most {} entries: narrow the time or the kind",
                           kMaxSamplePopulation);
    }
  }
  std::ranges::sort(kept, {}, &Drawn::order);
  json out{{"seed", request.seed}, {"size", drawn_from}, {"population", entries}, {"items", json::array()}};
  for (const Drawn& drawn : kept) {
    auto entry = TRY(entry_json({drawn.seq, drawn.bytes}));
    out["items"].push_back({{"order", schema::to_hex(drawn.order)}, {"entry", std::move(entry)}});
  }
  return out.dump();
}

}  // namespace driftgate::evidence
