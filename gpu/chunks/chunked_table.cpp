#include "gpu/chunks/chunked_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "gpu/capture/logit_check.hpp"
#include "gpu/measure_rows.hpp"
#include "gpu/table/measurement_merge.hpp"
#include "schema/sha256.hpp"

namespace driftgate::gpu {

using schema::Result;

namespace {

constexpr int kFormat = 2;  ///< of kept chunks; part of their key

/// Numbers as hexadecimal floats: every bit counts.
std::string described(const Capture& capture) {
  const CaptureIdentity& id = capture.identity();
  std::string out =
      fmt::format("|{}|{}|{}|{}|{}|{:a}|{}|{}|{}|{}|{}", id.kernel, id.checkpoint_digest, id.corpus_digest,
                  id.token_source, id.sampling_filter, id.temperature, capture.first_row(), capture.rows(),
                  capture.vocabulary(), capture.columns(), to_string(capture.mode()));
  for (const CaptureSegment& segment : capture.segments())
    out += fmt::format("|{} {}", segment.rows, static_cast<int>(segment.dtype));
  return out;
}

std::string described(const MeasureOptions& options, const std::vector<SliceAttributes>& slices) {
  std::string out =
      fmt::format("|{} {} {:a} {} {}", options.top_k, options.metrics, options.ppo_clip,
                  options.is_clip ? fmt::format("{:a}", *options.is_clip) : "-", options.top_rows);
  for (const Threshold& threshold : options.thresholds)
    out += fmt::format("|{} {:a} {}", static_cast<int>(threshold.metric), threshold.value, threshold.above);
  for (const SliceAttributes& where : slices) {
    out += "|slice";
    for (const auto& [key, value] : where)
      out += fmt::format(" {}:{}={}:{}", key.size(), key, value.size(), value);
  }
  return out;
}

}  // namespace

Result<ChunkedTable> ChunkedTable::open(const Capture& train, const Capture& inf, const Corpus* corpus,
                                        const MeasureOptions& options, const std::string& engine) {
  ChunkedTable out(train, inf, options);
  Accumulator whole(empty_table(train, inf, options), train.sequence_ids());
  if (corpus != nullptr) {
    TRY(attach_corpus(*corpus, whole.infos()));
  }
  out.slices_ = options.slices ? *options.slices : described_slices(whole.infos());
  out.infos_ = std::move(whole.infos());
  if (options.chunking.store != nullptr) {
    out.chunks_ = chunk_ranges(train.sequence_ids(), rows_of_chunk(train, options.chunking.bytes));
    out.what_ = fmt::format("{}|{}{}{}{}", kFormat, engine, described(train), described(inf),
                            described(options, out.slices_));
  } else if (train.rows() > 0) {
    out.chunks_ = {{0, train.rows()}};
  }
  return out;
}

std::string ChunkedTable::name() const {
  return fmt::format("{}-{:04}", options_.chunking.name, next_);
}

std::string ChunkedTable::key() const {
  // Sums over all rows go on from those of the chunks before.
  static_assert(std::is_trivially_copyable_v<DriftProfile>);
  const DriftProfile before = table_ ? table_->profile : DriftProfile{};
  const auto bytes = std::as_bytes(std::span(&before, 1));
  const Range& rows = chunks_[next_];
  return fmt::format("{}|{}|{} to {} of {}", what_, options_.chunking.name, rows.begin, rows.end,
                     schema::sha256_digest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

Accumulator ChunkedTable::start() const {
  const Range& rows = chunks_[next_];
  Accumulator out(empty_table(train_, inf_, options_),
                  train_.sequence_ids().subspan(rows.begin, rows.count()));
  const auto first = infos_.begin() + static_cast<std::ptrdiff_t>(table_ ? table_->infos.size() : 0);
  std::copy_n(first, out.infos().size(), out.infos().begin());
  out.set_slices(slices_);
  out.set_top_rows(options_.top_rows);
  if (profile() != nullptr) out.continue_profile(*profile());
  return out;
}

/// Bytes that were kept are not trusted, even where their digest is right.
bool ChunkedTable::fits(const MeasurementTable& table) const {
  const Range& rows = chunks_[next_];
  MeasurementTable expected = start().finish();
  if (options_.device != "cpu") expected.rows_on_cpu = 0;
  if (table.rows != rows.count() || !mergeable(expected, table) || !only_unphysical(table)) return false;
  if (table.rows_on_cpu && *table.rows_on_cpu > table.rows) return false;
  if (table.worst_rows.size() > options_.top_rows) return false;
  if (!std::ranges::equal(table.sequences, expected.sequences, {}, &SequenceRow::sequence,
                          &SequenceRow::sequence))
    return false;
  if (!std::ranges::is_sorted(table.worst_rows, worse)) return false;
  return std::ranges::all_of(table.worst_rows, [&](const WorstRow& row) {
    return row.row < rows.count() && train_.sequence_ids()[rows.begin + row.row] == row.sequence;
  });
}

bool ChunkedTable::take() {
  if (!keeps()) return false;
  const auto bytes = options_.chunking.store->find(name(), key());
  if (!bytes || bytes->size() > kMaxChunkTableBytes) return false;
  auto table = deserialise(*bytes);
  if (!table || !fits(*table)) return false;
  const auto first = infos_.begin() + static_cast<std::ptrdiff_t>(table_ ? table_->infos.size() : 0);
  std::copy_n(first, table->infos.size(), table->infos.begin());
  append(std::move(*table));
  return true;
}

Result<void> ChunkedTable::add(MeasurementTable table) {
  if (keeps()) {
    TRY(options_.chunking.store->keep(name(), key(), serialise(table)));
  }
  append(std::move(table));
  return {};
}

void ChunkedTable::append(MeasurementTable table) {
  if (table_) {
    append_continued(*table_, std::move(table), options_.top_rows);
  } else {
    table_ = std::move(table);
  }
  ++next_;
}

MeasurementTable ChunkedTable::finish() {
  if (table_) return std::move(*table_);
  Accumulator none(empty_table(train_, inf_, options_), {});
  none.set_slices(slices_);
  return none.finish();
}

}  // namespace driftgate::gpu
