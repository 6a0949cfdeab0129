#include "gpu/compare_bits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "gpu/columns/column_check.hpp"
#include "gpu/measure_rows.hpp"
#include "gpu/support/support_check.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

using schema::Result;

namespace {

constexpr std::uint64_t kRowsBetweenChecks = 8'192;

/// One tensor of a capture.
struct Column {
  std::string tensor;
  DType dtype{};
  std::uint64_t elements = 1;  ///< of a row

  [[nodiscard]] std::size_t row_bytes() const {
    return static_cast<std::size_t>(elements) * size_bytes(dtype);
  }
};

/// Pointers to the rows of one tensor, in row order.
class Rows {
 public:
  /// `base` returns a pointer to the first row of a segment, `distance` the bytes from one row to the next.
  template <typename Base, typename Distance>
  Rows(const Capture& capture, Base base, Distance distance) {
    for (const CaptureSegment& segment : capture.segments()) {
      pieces_.push_back(
          {segment.first_row + segment.rows, segment.first_row, base(segment), distance(segment)});
    }
  }
  Rows(const std::byte* first, std::uint64_t row_bytes) {
    pieces_.push_back({std::numeric_limits<std::uint64_t>::max(), 0, first, row_bytes});
  }
  [[nodiscard]] const std::byte* at(std::uint64_t row) {
    while (row >= pieces_[piece_].end) ++piece_;
    const Piece& piece = pieces_[piece_];
    return piece.first + static_cast<std::size_t>((row - piece.begin) * piece.row_bytes);
  }

 private:
  struct Piece {
    std::uint64_t end = 0, begin = 0;
    const std::byte* first = nullptr;
    std::uint64_t row_bytes = 0;
  };
  std::vector<Piece> pieces_;
  std::size_t piece_ = 0;
};

struct Pair {
  Column column;
  Rows train, inf;
};

/// The tensors that are compared, or the reason why they cannot be.
struct Plan {
  std::vector<Pair> pairs;
  std::string refused;
};

std::uint64_t bits_of(const std::byte* at, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, std::min(size, sizeof(bits)));  // little-endian, as the file is
  return bits;
}

/// The type of a tensor in all files of a capture; nothing when files differ.
template <typename Member>
std::optional<DType> one_type(const Capture& capture, Member member) {
  const DType first = capture.segments().front().*member;
  const bool same =
      std::ranges::all_of(capture.segments(), [&](const CaptureSegment& s) { return s.*member == first; });
  return same ? std::optional(first) : std::nullopt;
}

template <typename Member>
std::string types_differ(const char* tensor, const Capture& train, const Capture& inf, Member member) {
  const auto a = one_type(train, member);
  const auto b = one_type(inf, member);
  if (a && b && *a == *b) return {};
  const auto name = [](const std::optional<DType>& type) {
    return type ? std::string(to_string(*type)) : std::string("of several types");
  };
  return fmt::format(
      "{} is {} in the capture of K_train and {} in that of K_inf, and values of different types never have "
      "equal bits: capture both kernels in the type that they compute in",
      tensor, name(a), name(b));
}

Plan plan_logits(const Capture& train, const Capture& inf) {
  Plan plan;
  if (train.mode() != CaptureMode::full) {
    plan.refused = fmt::format(
        "captures in {} mode hold no logits as the kernels computed them{}: capture full logits",
        to_string(train.mode()),
        train.mode() == CaptureMode::hidden ? " (driftgate computes them from the head in its own arithmetic)"
                                            : "");
    return plan;
  }
  plan.refused = types_differ("logits", train, inf, &CaptureSegment::dtype);
  if (!plan.refused.empty()) return plan;
  const Column column{"logits", train.segments().front().dtype, train.vocabulary()};
  const auto base = [](const CaptureSegment& segment) { return segment.logits; };
  const auto distance = [](const CaptureSegment& segment) { return segment.row_bytes; };
  plan.pairs.push_back({column, Rows(train, base, distance), Rows(inf, base, distance)});
  return plan;
}

void plan_lists(const Capture& train, const Capture& inf, Plan& plan) {
  if (train.columns() != inf.columns()) {
    plan.refused = fmt::format(
        "the lists have {} tokens by K_train and {} by K_inf: request lists of one length from both engines",
        train.columns(), inf.columns());
    return;
  }
  plan.refused = types_differ("topk_ids", train, inf, &CaptureSegment::id_dtype);
  if (!plan.refused.empty()) return;
  const Column ids{"topk_ids", train.segments().front().id_dtype, train.columns()};
  const Column values{"topk_logprobs", DType::f32, train.columns()};
  const auto id_base = [](const CaptureSegment& segment) { return segment.list_ids; };
  const auto value_base = [](const CaptureSegment& segment) { return segment.list_logprobs; };
  const auto of = [&](const Capture& capture, const Column& column, auto base) {
    return Rows(capture, base, [bytes = column.row_bytes()](const CaptureSegment&) { return bytes; });
  };
  plan.pairs.push_back({ids, of(train, ids, id_base), of(inf, ids, id_base)});
  plan.pairs.push_back({values, of(train, values, value_base), of(inf, values, value_base)});
}

Plan plan_logprobs(const Capture& train, const Capture& inf) {
  Plan plan;
  if (train.logprobs().empty() != inf.logprobs().empty()) {
    plan.refused = fmt::format("only the capture of {} holds log-probabilities (tensor logprobs)",
                               train.logprobs().empty() ? "K_inf" : "K_train");
    return plan;
  }
  if (!train.logprobs().empty()) {
    const Column column{"logprobs", DType::f32, 1};
    plan.pairs.push_back({column, Rows(std::as_bytes(train.logprobs()).data(), column.row_bytes()),
                          Rows(std::as_bytes(inf.logprobs()).data(), column.row_bytes())});
  }
  const bool lists = train.mode() == CaptureMode::topk || train.mode() == CaptureMode::matched;
  if (lists) plan_lists(train, inf, plan);
  if (plan.refused.empty() && plan.pairs.empty()) {
    plan.refused =
        "the captures hold no log-probabilities (tensors logprobs, topk_logprobs): those that driftgate "
        "computes from logits depend on its own arithmetic; compare the bits of the logits instead";
  }
  return plan;
}

Plan plan_tokens(const Capture& train, const Capture& inf) {
  Plan plan;
  if (!train.has_tokens() || !inf.has_tokens()) {
    plan.refused = "the captures hold no tokens (tensor token_ids)";
    return plan;
  }
  // Compared as 64-bit numbers, so that I32 and I64 of one value are equal.
  const Column column{"token_ids", DType::i64, 1};
  plan.pairs.push_back({column, Rows(std::as_bytes(train.token_ids()).data(), column.row_bytes()),
                        Rows(std::as_bytes(inf.token_ids()).data(), column.row_bytes())});
  return plan;
}

/// The first element that differs between two rows.
BitDifference first_difference(const Column& column, const std::byte* train, const std::byte* inf) {
  const std::size_t size = size_bytes(column.dtype);
  BitDifference out;
  out.tensor = column.tensor;
  out.dtype = column.dtype;
  while (std::memcmp(train + out.element * size, inf + out.element * size, size) == 0) ++out.element;
  out.train = bits_of(train + out.element * size, size);
  out.inf = bits_of(inf + out.element * size, size);
  return out;
}

/// Calls `differs` for each row in which a pair of tensors differs, with the row and the first difference.
template <typename Differs>
Result<void> each_difference(const Capture& train, const Capture& inf, Plan& plan, const Differs& differs) {
  for (std::uint64_t row = 0; row < train.rows(); ++row) {
    if (row % kRowsBetweenChecks == 0) {
      for (const Capture* capture : {&train, &inf}) {
        TRY(capture->check_unchanged());
      }
    }
    for (Pair& pair : plan.pairs) {
      const std::byte* a = pair.train.at(row);
      const std::byte* b = pair.inf.at(row);
      if (std::memcmp(a, b, pair.column.row_bytes()) == 0) continue;
      differs(row, [&] { return first_difference(pair.column, a, b); });
      break;
    }
  }
  return {};
}

/// The bits of an element in as many hexadecimal digits as its type has; an id as a decimal number.
std::string pattern(std::uint64_t bits, DType dtype) {
  if (dtype == DType::i32 || dtype == DType::i64) return std::to_string(bits);
  return fmt::format("0x{:0{}x}", bits, 2 * size_bytes(dtype));
}

std::string text_of(const std::string& what, std::uint64_t rows, std::uint64_t differing,
                    const std::optional<BitDifference>& first, const std::vector<SequenceInfo>& infos) {
  if (!first) return fmt::format("the bits of the {} are equal in all {} rows", what, rows);
  const BitDifference& at = *first;
  const auto info = std::ranges::find(infos, at.sequence, &SequenceInfo::sequence);
  const std::string id = info == infos.end() || info->id.empty() ? "" : fmt::format(" ({})", info->id);
  return fmt::format(
      "the bits of the {} differ in {} of {} rows, first in sequence {}{} at position {}, row {} of the "
      "captures: element {} of {} ({}) is {} by K_train and {} by K_inf",
      what, differing, rows, at.sequence, id, at.position, at.row, at.element, at.tensor, to_string(at.dtype),
      pattern(at.train, at.dtype), pattern(at.inf, at.dtype));
}

}  // namespace

std::string bits_finding(const std::string& what) {
  return "bits_of_" + what;
}

BitComparison::BitComparison(const std::vector<std::string>& wanted) {
  for (const std::string& what : wanted) parts_.emplace_back().what = what;
}

Result<void> BitComparison::add(const Capture& train, const Capture& inf) {
  for (Part& part : parts_) {
    Plan plan = part.what == "logits"     ? plan_logits(train, inf)
                : part.what == "logprobs" ? plan_logprobs(train, inf)
                                          : plan_tokens(train, inf);
    if (part.what == "logits" && (train.on_device() || inf.on_device())) {
      return schema::fail(
          schema::ErrorCode::unsupported,
          "the contract compares the bits of logits, which is done on the CPU: give them in its memory");
    }
    if (part.refused.empty()) part.refused = plan.refused;
    if (!part.refused.empty()) continue;
    TRY(each_difference(train, inf, plan, [&](std::uint64_t row, const auto& difference) {
      ++part.differing;
      if (part.first) return;
      part.first = difference();
      part.first->row = rows_ + row;
      part.first->sequence = train.sequence_ids()[static_cast<std::size_t>(row)];
      part.first->position = train.positions()[static_cast<std::size_t>(row)];
    }));
  }
  rows_ += train.rows();
  return {};
}

void BitComparison::finish(MeasurementTable& table) const {
  for (const Part& part : parts_) {
    CaptureFinding finding{bits_finding(part.what), "both", false, 0, 0, part.refused};
    if (part.refused.empty()) {
      finding.count = part.differing;
      finding.of = rows_;
      finding.text = text_of(part.what, rows_, part.differing, part.first, table.infos);
    }
    table.partial.findings.push_back(std::move(finding));
  }
}

Result<void> compare_bits(const Capture& train, const Capture& inf, const std::vector<std::string>& wanted,
                          MeasurementTable& table) {
  BitComparison comparison(wanted);
  TRY(comparison.add(train, inf));
  comparison.finish(table);
  return {};
}

Result<std::optional<OtherTokens>> find_other_tokens(const Capture& train, const Capture& inf,
                                                     const std::vector<std::string>& wanted) {
  const bool of_tokens = std::ranges::find(wanted, "tokens") != wanted.end();
  if (!of_tokens || train.token_ids().size() != inf.token_ids().size()) return std::nullopt;
  const auto [a, b] = std::ranges::mismatch(train.token_ids(), inf.token_ids());
  if (a == train.token_ids().end()) return std::nullopt;
  // check_comparable names the first difference, and tokens come after rows, checkpoints and settings.
  const auto comparable = check_comparable(train, inf);
  if (!comparable && comparable.error().message.find("token_ids differs") == std::string::npos) {
    return std::unexpected(comparable.error());
  }
  return OtherTokens{static_cast<std::uint64_t>(a - train.token_ids().begin()), *a, *b};
}

driftgate_row unknown_row() {
  driftgate_row out{};
  std::ranges::fill(out.values, std::numeric_limits<double>::quiet_NaN());
  out.head_tail_tv = out.top_train = out.top_inf = std::numeric_limits<double>::quiet_NaN();
  return out;
}

Result<MeasurementTable> other_tokens_table(MeasurementTable empty, const OtherTokens& first,
                                            std::span<const std::int64_t> sequences,
                                            std::span<const std::int64_t> positions, const Corpus* corpus,
                                            const std::optional<std::vector<SliceAttributes>>& slices) {
  empty.has_tokens = false;
  empty.partial.findings.push_back(
      {kOtherTokens, "both", true, 1, sequences.size(),
       fmt::format(
           "the captures hold different tokens from row {} on ({} by K_train, {} by K_inf), so that the "
           "kernels did not process the same text, and their figures cannot be compared",
           first.row, first.train, first.inf)});
  Accumulator accumulator(std::move(empty), sequences);
  if (corpus != nullptr) {
    TRY(attach_corpus(*corpus, accumulator.infos()));
  }
  accumulator.set_slices(slices ? *slices : described_slices(accumulator.infos()));
  for (const std::int64_t position : positions) accumulator.add(position, -1, unknown_row());
  return accumulator.finish();
}

Result<std::optional<MeasurementTable>> measure_other_tokens(const Capture& train, const Capture& inf,
                                                             const Corpus* corpus,
                                                             const MeasureOptions& options,
                                                             const std::vector<std::string>& wanted) {
  const auto first = TRY(find_other_tokens(train, inf, wanted));
  if (!first) return std::nullopt;
  auto table = TRY(other_tokens_table(empty_table(train, inf, options), *first, train.sequence_ids(),
                                      train.positions(), corpus, options.slices));
  TRY(compare_bits(train, inf, wanted, table));
  return std::optional(std::move(table));
}

Result<MeasurementTable> measure_with_bits(const Capture& train, const Capture& inf, const Corpus* corpus,
                                           const MeasureOptions& options,
                                           const std::vector<std::string>& wanted, const Progress& progress,
                                           const RowSink& sink) {
  auto other = TRY(measure_other_tokens(train, inf, corpus, options, wanted));
  if (other) return std::move(*other);
  auto table = measure(train, inf, corpus, options, progress, sink);
  if (!table) return table;
  TRY(compare_bits(train, inf, wanted, *table));
  check_columns(train, inf, *table);
  check_support(train, inf, options.threads, *table);
  return table;
}

}  // namespace driftgate::gpu
