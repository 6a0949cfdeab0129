#include "daemon/cli/live/text.hpp"

#include <doctest/doctest.h>

#include "daemon/cli/live/frame.hpp"
#include "daemon/cli/live/layout.hpp"
#include "daemon/cli/live/line.hpp"

using namespace driftgate::cli::live;

namespace {

const std::string kReplaced = "\xEF\xBF\xBD";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::vector<Line> numbered(std::size_t lines) {
  std::vector<Line> out;
  for (std::size_t i = 0; i < lines; ++i) out.push_back({{std::to_string(i)}});
  return out;
}

std::string texts(const std::vector<Line>& lines) {
  std::string out;
  for (const Line& line : lines) {
    for (const Span& span : line) out += span.text;
    out += "|";
  }
  return out;
}

}  // namespace

TEST_CASE("what could steer a terminal, cannot be seen or turns the direction of text is replaced") {
  CHECK(safe_text("a\x1b[2Jb\r\n\tc\x7f") == "a [2Jb   c ");
  CHECK(safe_text("\xC2\x9B"
                  "31m") == " 31m");
  CHECK(safe_text("user\u202Egnp.exe") == "user" + kReplaced + "gnp.exe");
  for (const char* hidden :
       {"\u200B", "\u200F", "\u061C", "\u2066", "\u2028", "\uFEFF", "\u00AD", "\U000E0041"})
    CHECK(safe_text(hidden) == kReplaced);
  CHECK(safe_text("a\xFF\xC3") == "a" + kReplaced + kReplaced);
  CHECK(safe_text("Grüße — ✓ 漢字 🚀 שלום") == "Grüße — ✓ 漢字 🚀 שלום");
}

TEST_CASE("marks that pile up on one character are cut, and safe text is left as it is") {
  std::string piled = "e";
  for (int i = 0; i < 30; ++i) piled += "\u0301";
  CHECK(safe_text(piled) == "e\u0301\u0301");
  CHECK(safe_text("\u0301x") == "x");
  CHECK(safe_text("❤\uFE0F") == "❤");
  for (const std::string& text : {piled, std::string("\x1b[0m\u202E\xFF漢")})
    CHECK(safe_text(safe_text(text)) == safe_text(text));
}

TEST_CASE("widths are columns of the terminal") {
  CHECK(display_width("") == 0);
  CHECK(display_width("Grüße") == 5);
  CHECK(display_width("漢字") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("🚀") == 2);
  CHECK(display_width("→…█") == 3);
}

TEST_CASE("text is cut to a width between characters, with a sign that it was") {
  CHECK(fit("abcdef", 6) == "abcdef");
  CHECK(fit("abcdef", 4) == "abc…");
  CHECK(fit("abcdef", 1) == "…");
  CHECK(fit("abcdef", 0).empty());
  CHECK(fit("漢字漢字", 5) == "漢字…");
  CHECK(fit("漢字漢字", 4) == "漢…");
  CHECK(display_width(fit("漢字漢字", 4)) == 3);
  CHECK(pad("漢", 4) == "漢  ");
  CHECK(pad("abcdef", 3) == "ab…");
}

TEST_CASE("sentences are broken between words, and inside one that no line holds") {
  CHECK(wrap("one two three", 8, 5) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap("one two three four", 8, 2) == std::vector<std::string>{"one two", "three f…"});
  CHECK(wrap("abcdefghij", 4, 5) == std::vector<std::string>{"abcd", "efgh", "ij"});
  CHECK(wrap("", 10, 3).empty());
  CHECK(wrap("漢字漢字", 4, 3) == std::vector<std::string>{"漢字", "漢字"});
  CHECK(wrap("text", 0, 3).empty());
}

TEST_CASE("durations and figures are short") {
  CHECK(duration_text(-5) == "0 s");
  CHECK(duration_text(7'400'000) == "7 s");
  CHECK(duration_text(185'000'000) == "3 min");
  CHECK(duration_text(7'500'000'000) == "2 h 5 min");
  CHECK(duration_text(7'200'000'000) == "2 h");
  CHECK(duration_text(400'000'000'000) == "4 d");
  CHECK(figure_text(0.0646123) == "0.06461");
  CHECK(figure_text(5.429e8) == "5.429e+08");
}

TEST_CASE("a line is cut to its width over all its spans, and coloured only when colours are wanted") {
  const Line line{{"good", Style::good}, {" plain "}, {"漢字", Style::bad}};
  CHECK(painted(line, 80, false) == "good plain 漢字");
  CHECK(painted(line, 80, true) == "\x1b[32mgood\x1b[0m plain \x1b[31m漢字\x1b[0m");
  CHECK(painted(line, 15, false) == "good plain 漢字");
  CHECK(painted(line, 11, false) == "good plain…");
  CHECK(painted(line, 4, false) == "goo…");
  CHECK(painted(line, 0, true).empty());
  for (std::size_t width = 0; width < 20; ++width) CHECK(display_width(painted(line, width, false)) <= width);
  const Line hostile{{"\x1b]0;title\x07\u202E", Style::warn}};
  CHECK(painted(hostile, 80, true) == "\x1b[33m ]0;title " + kReplaced + "\x1b[0m");
}

TEST_CASE("bars and levels go from nothing to all") {
  CHECK(bar(0, 4) == "░░░░");
  CHECK(bar(0.5, 4) == "██░░");
  CHECK(bar(7, 4) == "████");
  CHECK(level_of(0.2, 100) == 0);
  CHECK(level_of(10, 100) == doctest::Approx(0.5));
  CHECK(level_of(1e9, 100) == 1);
}

TEST_CASE("where there is too little room, blocks of a lower rank keep theirs, and the rest is counted") {
  const Block first{.lines = numbered(2), .rank = 1, .gap = true};
  const Block many{.lines = numbered(9), .rank = 2, .least = 2, .counts_rest = true, .gap = true};
  const Block newest{.lines = numbered(5), .rank = 3, .least = 1, .keeps_last = true, .gap = true};
  CHECK(texts(lay_out({first, many, newest}, 30)) == "0|1||0|1|2|3|4|5|6|7|8||0|1|2|3|4|");
  CHECK(texts(lay_out({newest, many, first}, 9)) == "4|0|1|2|3|4|         and 4 more|0|1|");
  CHECK(texts(lay_out({newest, many, first}, 1)) == "0|");
  CHECK(lay_out({newest, many, first}, 0).empty());
  for (std::size_t rows = 0; rows < 24; ++rows) CHECK(lay_out({first, many, newest}, rows).size() <= rows);
}

TEST_CASE("a picture is drawn over the one before, also after the terminal became narrower") {
  Frame frame;
  const std::vector<Line> lines{{{std::string(70, 'x')}}, {{"short"}}, {}};
  const Shape wide{.columns = 80, .rows = 24, .colour = false};
  const std::string first = frame.draw(lines, wide);
  CHECK(first.find("A") == first.npos);
  CHECK(first == "\r\x1b[?7l" + std::string(70, 'x') + "\x1b[K\r\nshort\x1b[K\r\n\x1b[K\r\n\x1b[J\x1b[?7h");
  CHECK(frame.draw(lines, wide).starts_with("\r\x1b[3A\x1b[?7l"));
  // The line of 70 now takes two rows of 40; cut to 39, it takes one.
  const Shape narrow{.columns = 40, .rows = 24, .colour = false};
  const std::string again = frame.draw(lines, narrow);
  CHECK(again.starts_with("\r\x1b[4A"));
  CHECK(again.find(std::string(38, 'x') + "…\x1b[K") != again.npos);
  CHECK(frame.draw(lines, narrow).starts_with("\r\x1b[3A"));
  frame.forget();
  CHECK(frame.draw(lines, narrow).starts_with("\r\x1b[?7l"));
}

TEST_CASE("a picture never takes the last row, where a line break would scroll it away") {
  Frame frame;
  const Shape low{.columns = 20, .rows = 5, .colour = false};
  CHECK(count(frame.draw(numbered(30), low), "\r\n") == 4);
  CHECK(frame.draw(numbered(30), low).starts_with("\r\x1b[4A"));
  CHECK(count(frame.draw(numbered(30), {.columns = 0, .rows = 0, .colour = false}), "\r\n") == 1);
}
