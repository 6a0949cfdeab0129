#include "daemon/drift/reports/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "schema/utf8.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::drift {

namespace {

struct Range {
  char32_t first, last;
};
// As UNSEEN in web/src/ui/name.tsx, and noncharacters, of which XML does not allow all.
constexpr std::array<Range, 13> kUnseen{{{0x00, 0x1f},
                                         {0x7f, 0x9f},
                                         {0xad, 0xad},
                                         {0x61c, 0x61c},
                                         {0x180e, 0x180e},
                                         {0x200b, 0x200f},
                                         {0x2028, 0x202e},
                                         {0x2060, 0x206f},
                                         {0xfeff, 0xfeff},
                                         {0xfff9, 0xfffb},
                                         {0xfffe, 0xffff},
                                         {0xe0000, 0xe007f},
                                         {0xfdd0, 0xfdef}}};

char32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  constexpr std::array<unsigned, 5> kLead{0, 0, 0x1f, 0x0f, 0x07};
  char32_t out = byte(0) & kLead[character.size()];
  for (std::size_t i = 1; i < character.size(); ++i) out = (out << 6U) | (byte(i) & 0x3fU);
  return out;
}

bool unseen(char32_t code) {
  return std::ranges::any_of(kUnseen, [code](const Range& r) { return r.first <= code && code <= r.last; });
}

}  // namespace

std::string visible(std::string_view text, std::size_t max_bytes) {
  bool cut = text.size() > max_bytes;
  const std::string whole = schema::utf8_text(text, max_bytes);
  std::string out;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t length = std::max<std::size_t>(schema::utf8_length(whole, at), 1);
    const std::string_view character = std::string_view(whole).substr(at, length);
    const char32_t code = code_point(character);
    const std::string shown =
        unseen(code) ? fmt::format("⟨U+{:04X}⟩", static_cast<std::uint32_t>(code)) : std::string(character);
    cut = cut || out.size() + shown.size() > max_bytes;
    if (out.size() + shown.size() > max_bytes) break;
    out += shown;
    at += length;
  }
  return cut ? out + "…" : out;
}

std::string markup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string markup_name(std::string_view text) {
  return markup(visible(text));
}

std::string figure_text(double value) {
  return std::isnan(value) ? "–" : stages::figure(value);
}

std::string figure_text(const std::optional<double>& value) {
  return value ? figure_text(*value) : "–";
}

std::string place_text(const schema::SliceWhere& where) {
  return where.empty() ? "corpus" : visible(schema::slice_text(where), kMaxNameBytes);
}

std::string kernel_text(const gpu::CaptureIdentity& identity) {
  return identity.kernel.empty() ? "(unnamed)" : visible(identity.kernel, kMaxNameBytes);
}

std::string upper_text(schema::Verdict verdict) {
  std::string out(schema::to_string(verdict));
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", stages::count_text(count), noun, count == 1 ? "" : "s");
}

double least_mean(const gpu::Summary& summary, schema::Metric metric) {
  const auto found = std::ranges::find(summary.bounds, metric, &gpu::BoundSummary::metric);
  return found == summary.bounds.end() ? summary.metrics[static_cast<std::size_t>(metric)].mean
                                       : found->mean_lower;
}

}  // namespace driftgate::drift
