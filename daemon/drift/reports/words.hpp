#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/table/measurement.hpp"
#include "gpu/table/summary.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"

/// The words that all forms of a report share.
namespace driftgate::drift {

inline constexpr std::size_t kMaxNameBytes = 240, kMaxSentenceBytes = 2'000;

/// Well-formed UTF-8 in which every character that takes no visible room is written as ⟨U+202E⟩: controls,
/// zero-width and direction marks, line separators, tags (the same as on the daemon's page). What is longer
/// than `max_bytes` is cut and ends in "…".
[[nodiscard]] std::string visible(std::string_view text, std::size_t max_bytes = kMaxSentenceBytes);

/// Escapes & < > " ' for the text and the attributes of XML and HTML.
[[nodiscard]] std::string markup(std::string_view text);
/// `markup(visible(text))`.
[[nodiscard]] std::string markup_name(std::string_view text);

/// Four significant digits; "–" for a number that does not exist.
[[nodiscard]] std::string figure_text(double value);
[[nodiscard]] std::string figure_text(const std::optional<double>& value);
/// "corpus" or "language=de", visible.
[[nodiscard]] std::string place_text(const schema::SliceWhere& where);
/// The kernel's name, visible; "(unnamed)" without one.
[[nodiscard]] std::string kernel_text(const gpu::CaptureIdentity& identity);
[[nodiscard]] std::string upper_text(schema::Verdict verdict);  ///< "VIOLATED"
/// "1 row", "2 rows", "4,160 rows".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);

/// The mean over tokens; its lower bound for a metric of which only bounds are known.
[[nodiscard]] double least_mean(const gpu::Summary& summary, schema::Metric metric);

}  // namespace driftgate::drift
