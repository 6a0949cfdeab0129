#include "daemon/jobs/pickle.hpp"

#include <algorithm>
#include <array>

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

}  // namespace

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
  if (head.size() >= 2 && head[0] == kProtocolMark && head[1] >= 2 && head[1] <= kLastProtocol && last == '.')
    return "it begins as a pickle";
  if (last == '.' && begins_as_old_pickle(head)) return "it begins as a pickle of an old protocol";
  if (head.starts_with(std::string_view("PK\x03\x04", 4)))
    return "it is a ZIP archive, as torch.save writes around pickles";
  if (head.starts_with("\x93NUMPY") && head.find("'|O'") != head.npos)
    return "it is a NumPy array of objects, which are pickles";
  return std::nullopt;
}

}  // namespace driftgate::jobs
