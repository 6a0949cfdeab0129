#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "gpu/table/measurement.hpp"

// Canonical bytes of a measurement table: "DGMT", a version, then every field in the order of the
// header; integers and IEEE-754 doubles little-endian, strings and lists after a 64-bit count. The same
// `visit` functions write and read, so that the two cannot disagree.

namespace driftgate::gpu {

namespace {

constexpr std::string_view kMagic = "DGMT";
constexpr std::uint32_t kVersion = 6;

class Writer {
 public:
  static constexpr bool reading = false;
  template <std::unsigned_integral T>
  void number(const T& value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out.push_back(
          static_cast<char>(static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * i))));
    }
  }
  void bytes(const std::string& text) {
    number(static_cast<std::uint64_t>(text.size()));
    out += text;
  }
  std::string out;
};

class Reader {
 public:
  static constexpr bool reading = true;
  explicit Reader(std::string_view bytes) : rest(bytes) {}

  template <std::unsigned_integral T>
  void number(T& value) {
    if (rest.size() < sizeof(T)) return stop();
    std::uint64_t raw = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      raw |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
    }
    value = static_cast<T>(raw);
    rest.remove_prefix(sizeof(T));
  }
  void bytes(std::string& text) {
    const std::size_t size = count(1);
    text.assign(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  /// A count of items of at least `least_bytes` each; checked, so that a wrong count cannot make us reserve
  /// memory.
  std::size_t count(std::size_t least_bytes) {
    std::uint64_t size = 0;
    number(size);
    if (failed || size > rest.size() / least_bytes) {
      stop();
      return 0;
    }
    return static_cast<std::size_t>(size);
  }
  void stop() {
    failed = true;
    rest = {};
  }
  std::string_view rest;
  bool failed = false;
};

void visit(auto& archive, auto& value);

template <typename Archive, typename T>
void visit_number(Archive& archive, T& value) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, double>) {
    auto raw = std::bit_cast<std::uint64_t>(value);
    archive.number(raw);
    if constexpr (Archive::reading) value = std::bit_cast<double>(raw);
  } else if constexpr (std::is_same_v<Plain, bool>) {
    auto raw = static_cast<std::uint8_t>(value ? 1 : 0);
    archive.number(raw);
    if constexpr (Archive::reading) {
      if (raw > 1) archive.stop();
      value = raw == 1;
    }
  } else if constexpr (std::is_same_v<Plain, Metric>) {
    auto raw = static_cast<std::uint8_t>(value);
    archive.number(raw);
    if constexpr (Archive::reading) {
      if (raw >= schema::kMetricCount) archive.stop();
      value = static_cast<Metric>(raw);
    }
  } else {
    auto raw = static_cast<std::make_unsigned_t<Plain>>(value);
    archive.number(raw);
    if constexpr (Archive::reading) value = static_cast<Plain>(raw);
  }
}

template <typename Archive, typename... T>
void visit_all(Archive& archive, T&... fields) {
  (visit(archive, fields), ...);
}

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsMap : std::false_type {};
template <typename K, typename V>
struct IsMap<std::map<K, V>> : std::true_type {};
template <typename T>
struct IsArray : std::false_type {};
template <typename T, std::size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};

template <typename Archive, typename T>
void visit_optional(Archive& archive, T& value) {
  bool present = value.has_value();
  visit(archive, present);
  if constexpr (Archive::reading) value.reset();
  if (!present) return;
  if constexpr (Archive::reading) value.emplace();
  visit(archive, *value);
}

template <typename Archive, typename T>
void visit_vector(Archive& archive, T& values) {
  if constexpr (Archive::reading) {
    const std::size_t size = archive.count(1);
    values.clear();
    for (std::size_t i = 0; i < size && !archive.failed; ++i) visit(archive, values.emplace_back());
  } else {
    archive.number(static_cast<std::uint64_t>(values.size()));
    for (const auto& value : values) visit(archive, value);
  }
}

template <typename Archive, typename T>
void visit_map(Archive& archive, T& values) {
  if constexpr (Archive::reading) {
    const std::size_t size = archive.count(1);
    values.clear();
    for (std::size_t i = 0; i < size && !archive.failed; ++i) {
      typename T::key_type key{};
      visit(archive, key);
      // Keys in another order would be a second encoding of the same table.
      if (!values.empty() && !(values.rbegin()->first < key)) return archive.stop();
      visit(archive, values[key]);
    }
  } else {
    archive.number(static_cast<std::uint64_t>(values.size()));
    for (const auto& [key, value] : values) {
      visit(archive, key);
      visit(archive, value);
    }
  }
}

void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, Moments> {
  visit_all(a, v.n, v.sum, v.sum_squares, v.min, v.max);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, Threshold> {
  visit_all(a, v.metric, v.value, v.above);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, TargetTokenSums> {
  visit_all(a, v.n, v.log_w, v.w, v.w_squares, v.abs_w_minus_1, v.k3, v.abs_log_w, v.exp_abs_log_w, v.log_p,
            v.log_q, v.outside_clip, v.in_band, v.p, v.q, v.p_squares, v.q_squares, v.pq, v.excess_is_clip,
            v.min_log_q);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, RowContrast::Shift> {
  visit_all(a, v.pairs, v.own, v.next, v.previous);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, RowContrast> {
  visit_all(a, v.rows, v.entropy_gap, v.entropy_up, v.entropy, v.logprob, v.tokens, v.inf_likelier,
            v.nonzero_train, v.nonzero_inf, v.bf16_train, v.bf16_inf);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, ProfileBucket> {
  visit_all(a, v.rows, v.tv, v.kl_inf_train, v.logit_rms, v.top1_flips, v.tokens, v.abs_log_ratio);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, DriftProfile> {
  visit_all(a, v.by_position, v.by_entropy, v.by_probability);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, BoundMoments> {
  visit_all(a, v.lower, v.upper);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, SequenceBounds> {
  visit_all(a, v.metrics, v.maybe_beyond, v.tail_train, v.tail_inf);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, CaptureFinding> {
  visit_all(a, v.name, v.side, v.decides, v.count, v.of, v.text);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, PartialInfo> {
  visit_all(a, v.mode, v.listed, v.metrics, v.unknown_rows, v.findings);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, SupportSums> {
  visit_all(a, v.rows, v.p_lost, v.preference, v.filters, v.untaken, v.ranges, v.filters_p, v.untaken_p,
            v.ranges_p);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, SequenceRow> {
  visit_all(a, v.sequence, v.rows, v.metrics, v.head_tail_tv, v.beyond, v.target, v.top_train, v.top_inf,
            v.contrast, v.bounds, v.support);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, SequenceInfo> {
  visit_all(a, v.sequence, v.id, v.slices, v.reward, v.advantage, v.correct_train, v.correct_inf,
            v.confidence_train, v.confidence_inf, v.cluster);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, WorstRow> {
  visit_all(a, v.row, v.sequence, v.position, v.token, v.values, v.kl_before, v.kl_after, v.upper);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, Histogram> {
  visit_all(a, v.positive, v.negative, v.zero, v.overflow, v.underflow);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, SliceHistograms> {
  visit_all(a, v.where, v.histograms);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, CaptureIdentity> {
  visit_all(a, v.kernel, v.checkpoint_digest, v.corpus_digest, v.token_source, v.sampling_filter,
            v.temperature, v.file_digest);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, OffsetSums> {
  visit_all(a, v.n, v.above, v.sum, v.squares);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, ColumnContrast> {
  visit_all(a, v.rows, v.blocks, v.block_columns, v.before, v.others);
}
void visit_fields(auto& a, auto& v) requires
    std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(v)>>, MeasurementTable> {
  visit_all(a, v.train, v.inf, v.rows, v.vocabulary, v.top_k, v.ppo_clip, v.is_clip, v.has_tokens,
            v.thresholds, v.sequences, v.infos, v.slices, v.worst_rows, v.nonfinite_rows, v.profile,
            v.columns, v.partial, v.rows_on_cpu);
}

void visit(auto& archive, auto& value) {
  using T = std::remove_const_t<std::remove_reference_t<decltype(value)>>;
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    visit_number(archive, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    archive.bytes(value);
  } else if constexpr (IsOptional<T>::value) {
    visit_optional(archive, value);
  } else if constexpr (IsVector<T>::value) {
    visit_vector(archive, value);
  } else if constexpr (IsMap<T>::value) {
    visit_map(archive, value);
  } else if constexpr (IsArray<T>::value) {
    for (auto& item : value) visit(archive, item);
  } else {
    visit_fields(archive, value);
  }
}

/// Invariants that readers of a table rely on.
bool consistent(const MeasurementTable& table) {
  if (table.infos.size() != table.sequences.size()) return false;
  if (table.columns) {
    const std::size_t width = table.columns->block_columns, blocks = table.columns->blocks.size();
    if (width == 0 || blocks == 0 || blocks != (table.vocabulary + width - 1) / width) return false;
  }
  const std::size_t bounded = table.partial.metrics.size();
  for (const Metric metric : table.partial.metrics) {
    if (static_cast<std::size_t>(metric) >= kRowMetricCount) return false;
  }
  for (const SequenceRow& sequence : table.sequences) {
    if (sequence.beyond.size() != table.thresholds.size()) return false;
    if (sequence.bounds.has_value() == table.partial.mode.empty()) return false;
    if (!sequence.bounds) continue;
    if (sequence.bounds->metrics.size() != bounded) return false;
    if (sequence.bounds->maybe_beyond.size() != table.thresholds.size()) return false;
  }
  return std::ranges::all_of(table.worst_rows,
                             [&](const WorstRow& row) { return row.upper.size() == bounded; });
}

}  // namespace

std::string serialise(const MeasurementTable& table) {
  Writer writer;
  writer.out = kMagic;
  writer.number(kVersion);
  visit(writer, table);
  return std::move(writer.out);
}

schema::Result<MeasurementTable> deserialise(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return schema::fail(schema::ErrorCode::corrupt,
                        "these bytes are not a measurement table: they do not start with DGMT");
  }
  Reader reader(bytes.substr(kMagic.size()));
  std::uint32_t version = 0;
  reader.number(version);
  if (!reader.failed && version != kVersion) {
    return schema::fail(schema::ErrorCode::unsupported,
                        "measurement table of version " + std::to_string(version) +
                            ", but this program reads version " + std::to_string(kVersion) +
                            "; use the program that wrote it");
  }
  MeasurementTable table;
  visit(reader, table);
  if (reader.failed) {
    return schema::fail(schema::ErrorCode::corrupt,
                        "the measurement table is truncated or contains a wrong count");
  }
  if (!reader.rest.empty()) {
    return schema::fail(
        schema::ErrorCode::corrupt,
        "the measurement table has " + std::to_string(reader.rest.size()) + " bytes after its end");
  }
  if (!consistent(table)) {
    return schema::fail(schema::ErrorCode::corrupt,
                        "the lists of the measurement table do not match in length");
  }
  return table;
}

}  // namespace driftgate::gpu
