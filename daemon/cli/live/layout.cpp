#include "daemon/cli/live/layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace driftgate::cli::live {
namespace {

/// How many lines each block gets.
std::vector<std::size_t> shares_of(const std::vector<Block>& blocks, std::size_t rows) {
  std::vector<std::size_t> order(blocks.size()), given(blocks.size(), 0);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return blocks[i].rank; });
  for (const bool all : {false, true}) {
    for (const std::size_t i : order) {
      const std::size_t wanted =
          all ? blocks[i].lines.size() : std::min(blocks[i].least, blocks[i].lines.size());
      const std::size_t more = std::min(rows, wanted - std::min(wanted, given[i]));
      given[i] += more;
      rows -= more;
    }
  }
  return given;
}

void add_block(const Block& block, std::size_t given, std::vector<Line>& out) {
  const std::size_t all = block.lines.size();
  const bool says_rest = block.counts_rest && given < all && given > 1;
  const std::size_t kept = says_rest ? given - 1 : given;
  const std::size_t from = block.keeps_last ? all - kept : 0;
  for (std::size_t i = from; i < from + kept; ++i) out.push_back(block.lines[i]);
  if (says_rest) out.push_back({{fmt::format("         and {} more", all - kept), Style::faint}});
}

}  // namespace

std::vector<Line> lay_out(const std::vector<Block>& blocks, std::size_t rows) {
  const auto given = shares_of(blocks, rows);
  std::size_t left = rows - std::accumulate(given.begin(), given.end(), std::size_t{0});
  std::vector<Line> out;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (given[i] == 0) continue;
    if (blocks[i].gap && left > 0 && !out.empty()) {
      out.emplace_back();
      --left;
    }
    add_block(blocks[i], given[i], out);
  }
  return out;
}

}  // namespace driftgate::cli::live
