#include <map>
#include <set>

#include "gpu/drift.hpp"

namespace driftgate::gpu {

namespace {

std::string value_of(const SequenceInfo& info, const std::string& key) {
  const auto found = info.slices.find(key);
  return found == info.slices.end() ? kMissingSliceValue : found->second;
}

void add_slices(const std::vector<SequenceInfo>& infos, const std::vector<std::string>& keys,
                std::uint32_t least, std::vector<SliceAttributes>& out) {
  std::map<SliceAttributes, std::uint32_t> counts;
  for (const SequenceInfo& info : infos) {
    SliceAttributes where;
    for (const std::string& key : keys) where[key] = value_of(info, key);
    ++counts[where];
  }
  for (const auto& [where, count] : counts) {
    if (count >= least && out.size() < kMaxDescribedSlices) out.push_back(where);
  }
}

}  // namespace

bool in_slice(const SequenceInfo& info, const SliceAttributes& where) {
  for (const auto& [key, value] : where) {
    if (value_of(info, key) != value) return false;
  }
  return true;
}

std::vector<SliceAttributes> described_slices(const std::vector<SequenceInfo>& infos, std::uint32_t least) {
  std::set<std::string> keys;
  for (const SequenceInfo& info : infos) {
    for (const auto& [key, value] : info.slices) keys.insert(key);
  }
  std::vector<SliceAttributes> out;
  for (const std::string& key : keys) add_slices(infos, {key}, least, out);
  for (auto a = keys.begin(); a != keys.end(); ++a) {
    for (auto b = std::next(a); b != keys.end(); ++b) add_slices(infos, {*a, *b}, least, out);
  }
  return out;
}

}  // namespace driftgate::gpu
