#include "stages/clauses/selection.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace driftgate::stages {

bool matches(const std::map<std::string, std::string>& attributes, const schema::SliceWhere& where) {
  return std::ranges::all_of(where, [&](const auto& condition) {
    const auto found = attributes.find(condition.first);
    return found == attributes.end() ? condition.second == kMissingValue : found->second == condition.second;
  });
}

Selection select_sequences(const gpu::MeasurementTable& table, const schema::SliceWhere& where) {
  Selection selection;
  static const std::map<std::string, std::string> kNone;
  for (std::size_t i = 0; i < table.sequences.size(); ++i) {
    if (matches(i < table.infos.size() ? table.infos[i].slices : kNone, where)) selection.push_back(i);
  }
  return selection;
}

schema::SliceWhere parse_slice(std::string_view text) {
  schema::SliceWhere where;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos) where.emplace(part.substr(0, equals), part.substr(equals + 1));
  }
  return where;
}

std::vector<schema::SliceWhere> monitored_slices(const schema::Slices& slices,
                                                 const std::vector<gpu::SequenceInfo>& infos) {
  std::vector<schema::SliceWhere> found;
  for (const std::string& dimension : slices.dimensions) {
    std::set<std::string> values;
    for (const gpu::SequenceInfo& info : infos) {
      const auto value = info.slices.find(dimension);
      values.insert(value == info.slices.end() ? std::string(kMissingValue) : value->second);
    }
    if (values.size() == 1 && values.contains(std::string(kMissingValue))) continue;
    for (const std::string& value : values) {
      const schema::SliceWhere where{{dimension, value}};
      if (std::ranges::find(slices.critical, where) == slices.critical.end() && found.size() < kMaxSlices) {
        found.push_back(where);
      }
    }
  }
  return found;
}

std::vector<std::size_t> cluster_numbers(const gpu::MeasurementTable& table, const Selection& selection) {
  std::vector<std::size_t> numbers(selection.size());
  std::unordered_map<std::string_view, std::size_t> named;
  std::size_t next = 0;
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const std::size_t index = selection[i];
    const std::string_view name =
        index < table.infos.size() ? table.infos[index].cluster : std::string_view{};
    if (name.empty()) {
      numbers[i] = next++;
      continue;
    }
    const auto [place, inserted] = named.try_emplace(name, next);
    if (inserted) ++next;
    numbers[i] = place->second;
  }
  return numbers;
}

}  // namespace driftgate::stages
