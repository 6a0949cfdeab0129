#include "daemon/route/control/router_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "daemon/base/durable_file.hpp"
#include "daemon/route/table/json_codec.hpp"
#include "daemon/route/table/route_json.hpp"

namespace driftgate::route {

BOOST_DESCRIBE_STRUCT(PageModel, (), (model, in_flight, windows, newest_window, kept_requests, open_requests))
BOOST_DESCRIBE_STRUCT(PageContents, (), (connections, models))
BOOST_DESCRIBE_STRUCT(RouterLoss, (),
                      (why, reason, pid, router_id, replacement_pid, replacement_id, down_ms, page, unread))

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBehind = ".loss.";

std::optional<RouterLoss> loss_from(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto json = parse_json(bytes);
  auto loss = json ? described_from_json<RouterLoss>(*json, "") : std::unexpected(json.error());
  if (!loss) return std::nullopt;
  loss->note = path;
  return std::move(*loss);
}

}  // namespace

std::uint64_t broken_requests(const RouterLoss& loss) {
  std::uint64_t broken = loss.unread.value_or(0);
  if (!loss.page) return broken;
  for (const auto& model : loss.page->models) {
    for (const auto count : model.in_flight) broken += count;
  }
  return broken;
}

std::uint64_t lost_windows(const RouterLoss& loss) {
  std::uint64_t lost = 0;
  if (!loss.page) return lost;
  for (const auto& model : loss.page->models) lost += model.windows;
  return lost;
}

schema::Result<void> keep_note(const std::string& control_path, RouterLoss& loss) {
  const auto path = fmt::format("{}{}{}", control_path, kBehind, loss.pid);
  if (auto written = base::replace_file(path, dumped(json_of(loss)), 0644); !written)
    return schema::wrap(written.error(),
                        fmt::format("cannot save the record of the lost router in {}", path));
  loss.note = path;
  return {};
}

std::vector<RouterLoss> kept_notes(const std::string& control_path) {
  const fs::path control = control_path;
  const auto prefix = control.filename().string() + std::string(kBehind);
  const auto folder = control.parent_path().empty() ? fs::path(".") : control.parent_path();
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(prefix) && !name.ends_with(".tmp"))
      found.emplace_back(entry->last_write_time(ignored), entry->path().string());
  }
  std::ranges::sort(found);
  std::vector<RouterLoss> losses;
  for (const auto& [time, path] : found) {
    if (auto loss = loss_from(path)) losses.push_back(std::move(*loss));
  }
  return losses;
}

void drop_note(const RouterLoss& loss) {
  std::error_code ignored;
  if (!loss.note.empty()) fs::remove(loss.note, ignored);
}

}  // namespace driftgate::route
