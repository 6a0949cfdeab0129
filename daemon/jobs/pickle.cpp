#include "daemon/jobs/pickle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ranges>
#include <utility>

namespace driftgate::jobs {
namespace {

constexpr std::array<std::string_view, 9> kEndings{".pkl",  ".pickle", ".pt",     ".pth", ".bin",
                                                   ".ckpt", ".dill",   ".joblib", ".npz"};
constexpr char kProtocolMark = '\x80';  ///< PROTO, the first opcode since protocol 2
constexpr char kLastProtocol = 5;

char lower(char c) {
  return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_module_char(char c) {
  return ('a' <= lower(c) && lower(c) <= 'z') || ('0' <= c && c <= '9') || c == '_' || c == '.';
}

/// "c" module "\n" name "\n": the opcode GLOBAL, with which old pickles name what they call.
bool begins_with_global(std::string_view head) {
  if (!head.starts_with('c')) return false;
  head.remove_prefix(1);
  for (int line = 0; line < 2; ++line) {
    const auto end = head.find('\n');
    if (end == 0 || end == head.npos || !std::ranges::all_of(head.substr(0, end), is_module_char))
      return false;
    head.remove_prefix(end + 1);
  }
  return true;
}

bool begins_as_old_pickle(std::string_view head) {
  for (const std::string_view start : {"(dp", "(lp", "(ip", "(tp"}) {
    if (head.starts_with(start) && head.size() > start.size() && '0' <= head[start.size()] &&
        head[start.size()] <= '9')
      return true;
  }
  return head.starts_with("}q") || head.starts_with("]q") || begins_with_global(head);
}

/// What follows an opcode: so many bytes, so many lines, or a length of so many bytes and as much data.
struct Argument {
  enum Kind : std::uint8_t {
    no_opcode,
    bytes,
    number_line,
    quoted_line,
    line,
    two_lines,
    counted
  } kind = no_opcode;
  std::uint8_t size = 0;
};

/// Of the opcodes of all protocols (pickletools of CPython).
Argument argument_of(char opcode) {
  constexpr std::string_view kAlone =
      "(.012NQRabdelostu})]\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98";
  constexpr std::pair<std::string_view, Argument> kWithArgument[] = {
      {"Khq\x80\x82", {Argument::bytes, 1}},
      {"M\x83", {Argument::bytes, 2}},
      {"Jjr\x84", {Argument::bytes, 4}},
      {"G\x95", {Argument::bytes, 8}},
      {"FILgp", {Argument::number_line}},
      {"S", {Argument::quoted_line}},
      {"PV", {Argument::line}},
      {"ci", {Argument::two_lines}},
      {"UC\x8a\x8c", {Argument::counted, 1}},
      {"TXB\x8b", {Argument::counted, 4}},
      {"\x8d\x8e\x96", {Argument::counted, 8}},
  };
  if (kAlone.find(opcode) != kAlone.npos) return {Argument::bytes, 0};
  for (const auto& [opcodes, argument] : kWithArgument) {
    if (opcodes.find(opcode) != opcodes.npos) return argument;
  }
  return {};
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : std::views::reverse(bytes)) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

/// Removes the argument of an opcode from the front of `rest`, all of `rest` when it is longer. False when
/// there is no valid argument.
bool take_argument(Argument argument, std::string_view& rest) {
  std::uint64_t length = argument.size;
  if (argument.kind == Argument::counted) {
    if (rest.size() < argument.size) return rest = {}, true;
    length = little_endian(rest.substr(0, argument.size));
    rest.remove_prefix(argument.size);
  }
  if (argument.kind == Argument::bytes || argument.kind == Argument::counted) {
    rest.remove_prefix(std::min<std::uint64_t>(length, rest.size()));
    return true;
  }
  for (int line = argument.kind == Argument::two_lines ? 2 : 1; line > 0; --line) {
    const auto text = rest.substr(0, rest.find('\n'));
    const char first = text.empty() ? ' ' : text.front();
    const bool fits = argument.kind == Argument::number_line ? first == '-' || ('0' <= first && first <= '9')
                      : argument.kind == Argument::quoted_line ? first == '\'' || first == '"'
                      : argument.kind == Argument::two_lines
                          ? !text.empty() && std::ranges::all_of(text, is_module_char)
                          : true;
    if (!fits) return false;
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  }
  return true;
}

/// Whether the bytes are opcodes up to a STOP, or as far as they were read, and something is called or made
/// by them. What follows a STOP does not matter: who loads a pickle stops there.
bool runs_as_pickle(std::string_view head) {
  constexpr std::string_view kNames = "ciRbo\x81\x92\x93", kTakesMark = "tldeuio1\x8f\x90\x91";
  const bool cut = head.size() >= kPickleHeadBytes;
  bool names = false;
  std::size_t marks = 0;
  for (std::string_view rest = head; !rest.empty();) {
    const char opcode = rest.front();
    if (opcode == '.') return names;
    rest.remove_prefix(1);
    const Argument argument = argument_of(opcode);
    if (argument.kind == Argument::no_opcode || !take_argument(argument, rest)) return false;
    if (opcode == '(') ++marks;
    if (kTakesMark.find(opcode) != kTakesMark.npos && marks-- == 0) return false;
    names = names || kNames.find(opcode) != kNames.npos;
  }
  return cut && names;
}

/// The header of a NumPy file, which gives its type; nothing when it is longer than `head`.
std::optional<std::string_view> numpy_header(std::string_view head) {
  constexpr std::size_t kMagicAndVersion = 8;
  if (head.size() < kMagicAndVersion) return std::nullopt;
  const std::size_t length_bytes = head[6] == 1 ? 2 : 4;
  const std::string_view rest = head.substr(kMagicAndVersion);
  if (rest.size() < length_bytes) return std::nullopt;
  const auto length = little_endian(rest.substr(0, length_bytes));
  if (rest.size() - length_bytes < length) return std::nullopt;
  return rest.substr(length_bytes, length);
}

/// Whether a NumPy header names a type of objects, in any of its spellings.
bool holds_objects(std::string_view header) {
  return header.find('O') != header.npos || header.find("object") != header.npos;
}

}  // namespace

schema::Result<void> refuse_pickle(const std::string& path, const std::optional<std::string>& why) {
  if (!why) return {};
  return schema::fail(
      schema::ErrorCode::forbidden,
      fmt::format("{} may be a pickle, which runs code when loaded: {}; use safetensors", path, *why));
}

std::optional<std::string> why_pickle_name(std::string_view path) {
  std::string name(path);
  std::ranges::transform(name, name.begin(), lower);
  for (const auto ending : kEndings) {
    if (name.ends_with(ending))
      return "files that end in " + std::string(ending) + " are pickles or hold them";
  }
  return std::nullopt;
}

std::optional<std::string> why_pickle_bytes(std::string_view head, char last) {
  // The length of a safetensors header may begin alike; no opcode follows it up to 2.6 million bytes.
  if (head.size() > 2 && head[0] == kProtocolMark && head[1] >= 2 && head[1] <= kLastProtocol &&
      argument_of(head[2]).kind != Argument::no_opcode)
    return "it begins as a pickle";
  if ((last == '.' && begins_as_old_pickle(head)) || runs_as_pickle(head))
    return "it begins as a pickle of an old protocol";
  if (head.starts_with(std::string_view("PK\x03\x04", 4)))
    return "it is a ZIP archive, as torch.save writes around pickles";
  if (!head.starts_with("\x93NUMPY")) return std::nullopt;
  const auto header = numpy_header(head);
  if (!header) return "it is a NumPy array whose type is not within its first 512 bytes";
  if (holds_objects(*header)) return "it is a NumPy array of objects, which are pickles";
  return std::nullopt;
}

}  // namespace driftgate::jobs
