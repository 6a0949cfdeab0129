#include "daemon/route/haproxy/runtime.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::haproxy {
namespace {

constexpr std::string_view kNewVersion = "New version created: ";

std::string_view stripped(std::string_view text) {
  const auto begin = text.find_first_not_of(" \r\n\t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \r\n\t") - begin + 1);
}

/// The first line, for a message: an unknown command is answered with the list of all.
std::string first_line(std::string_view text) {
  return std::string(stripped(text.substr(0, text.find('\n'))));
}

std::uint64_t digits_in(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Calls `take` with each line.
template <typename Take>
void each_line(std::string_view text, Take take) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const auto end = line.find(',');
    cells.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return cells;
    line.remove_prefix(end + 1);
  }
}

schema::Result<std::string> read_to_end(int fd, FrameDeadline deadline) {
  std::string answer;
  std::array<char, 65'536> bytes;
  for (;;) {
    const auto got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got == 0) return answer;
    if (got > 0) {
      answer.append(bytes.data(), static_cast<std::size_t>(got));
      if (answer.size() <= Runtime::kMaxAnswerBytes) continue;
      return schema::failf(schema::ErrorCode::limit_exceeded, "the answer is larger than {} bytes",
                           Runtime::kMaxAnswerBytes);
    }
    if (errno == EAGAIN) {
      TRY(wait_for(fd, POLLIN, deadline));
    } else if (errno != EINTR) {
      return schema::failf(schema::ErrorCode::unavailable, "reading failed: {}", std::strerror(errno));
    }
  }
}

schema::Result<std::string> exchange(const std::string& path, std::string_view command,
                                     FrameDeadline deadline) {
  const auto socket = TRY(connect_unix(path));
  TRY(write_all(socket.get(), command, deadline));
  return read_to_end(socket.get(), deadline);
}

}  // namespace

schema::Result<std::string> Runtime::ask(std::string_view command) const {
  const auto line = fmt::format("{}\n", command);
  auto answer = exchange(path_, line, std::chrono::steady_clock::now() + deadline_);
  if (answer) return answer;
  return schema::wrap(answer.error(), fmt::format("HAProxy's runtime socket {} does not answer", path_));
}

schema::Result<void> Runtime::tell(std::string_view command, std::string_view praise) const {
  const auto answer = TRY(ask(command));
  const auto said = stripped(answer);
  if (said.empty() || (!praise.empty() && said.starts_with(praise))) return {};
  return schema::failf(schema::ErrorCode::conflict, "HAProxy refused '{}': {}", first_line(command),
                       first_line(said));
}

schema::Result<std::vector<MapEntry>> Runtime::show_map(const std::string& file) const {
  const auto answer = TRY(ask(fmt::format("show map {}", file)));
  const auto said = stripped(answer);
  if (said.empty() || said.starts_with("0x")) return parse_map(answer);
  return schema::failf(schema::ErrorCode::conflict,
                       "HAProxy does not show the map {}: {}; does it run with the configuration beside it?",
                       file, first_line(said));
}

schema::Result<void> Runtime::replace_map(const std::string& file,
                                          const std::vector<MapEntry>& entries) const {
  const auto prepared = TRY(ask(fmt::format("prepare map {}", file)));
  const auto said = stripped(prepared);
  if (!said.starts_with(kNewVersion))
    return schema::failf(schema::ErrorCode::conflict, "HAProxy refused to prepare the map {}: {}", file,
                         first_line(said));
  const auto version = digits_in(said.substr(kNewVersion.size()));
  for (std::size_t next = 0; next < entries.size();) {
    auto command = fmt::format("add map @{} {} <<\n", version, file);
    do {
      command.append(entries[next].key).append(" ").append(entries[next].value).append("\n");
      ++next;
    } while (next < entries.size() &&
             command.size() + entries[next].key.size() + entries[next].value.size() < kMaxCommandBytes);
    TRY(tell(command));  // the line feed that ends the command is the empty line that ends the payload
  }
  return tell(fmt::format("commit map @{} {}", version, file));
}

schema::Result<std::uint64_t> Runtime::number(const std::string& variable) const {
  const auto answer = TRY(ask(fmt::format("get var {}", variable)));
  constexpr std::string_view kValue = "value=<";
  const auto at = answer.find(kValue);
  if (at != std::string::npos) return digits_in(std::string_view(answer).substr(at + kValue.size()));
  return schema::failf(schema::ErrorCode::conflict,
                       "HAProxy has no variable {}: {}; it does not run with driftgate's configuration",
                       variable, first_line(stripped(answer)));
}

schema::Result<std::map<std::string, Statistics>> Runtime::statistics(
    const std::vector<std::string>& backends) const {
  std::string command;
  for (const auto& backend : backends)
    command += fmt::format("{}show stat {} 6 -1", command.empty() ? "" : ";", backend);
  const auto answer = TRY(ask(command));
  return parse_statistics(answer);
}

schema::Result<std::uint64_t> Runtime::dropped_logs() const {
  const auto answer = TRY(ask("show info"));
  constexpr std::string_view kName = "DroppedLogs: ";
  const auto at = answer.find(kName);
  return at == std::string::npos ? 0 : digits_in(std::string_view(answer).substr(at + kName.size()));
}

schema::Result<std::map<std::string, std::uint32_t>> Runtime::counters(const std::string& table) const {
  const auto answer = TRY(ask(fmt::format("show table {}", table)));
  return parse_counters(answer);
}

std::map<std::string, Statistics> parse_statistics(std::string_view shown) {
  std::map<std::string, Statistics> statistics;
  std::vector<std::string_view> heads;
  each_line(shown, [&](std::string_view line) {
    if (line.starts_with("# ")) {
      heads = cells_of(line.substr(2));
      return;
    }
    const auto cells = cells_of(line);
    const auto cell = [&](std::string_view head) {
      const auto at = static_cast<std::size_t>(std::ranges::find(heads, head) - heads.begin());
      return at < cells.size() ? cells[at] : std::string_view();
    };
    if (cells.size() < 2 || cell("svname").empty()) return;
    statistics[fmt::format("{}/{}", cell("pxname"), cell("svname"))] = {digits_in(cell("scur")),
                                                                        std::string(cell("status"))};
  });
  return statistics;
}

std::map<std::string, std::uint32_t> parse_counters(std::string_view shown) {
  std::map<std::string, std::uint32_t> counters;
  each_line(shown, [&](std::string_view line) {
    constexpr std::string_view kKey = " key=";
    constexpr std::string_view kCount = " gpc0=";
    const auto key = line.find(kKey);
    const auto count = line.find(kCount);
    if (key == std::string_view::npos || count == std::string_view::npos || count < key) return;
    const auto name = line.substr(key + kKey.size());
    counters[std::string(name.substr(0, name.find(' ')))] =
        static_cast<std::uint32_t>(digits_in(line.substr(count + kCount.size())));
  });
  return counters;
}

}  // namespace driftgate::route::haproxy
