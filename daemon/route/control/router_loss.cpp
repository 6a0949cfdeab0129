#include "daemon/route/control/router_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/route/table/route_json.hpp"

namespace driftgate::route {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kBehind = ".loss.";

json to_json(const PageContents& page) {
  auto models = json::array();
  for (const auto& model : page.models) {
    models.push_back({{"model", model.model},
                      {"in_flight", model.in_flight},
                      {"windows", model.windows},
                      {"newest_window", model.newest_window},
                      {"kept_requests", model.kept_requests},
                      {"open_requests", model.open_requests}});
  }
  return {{"connections", page.connections}, {"models", std::move(models)}};
}

PageContents page_from(const json& text) {
  PageContents page;
  page.connections = text.at("connections").get<std::uint32_t>();
  for (const auto& model : text.at("models")) {
    page.models.push_back(
        {model.at("model").get<std::string>(),
         model.at("in_flight").get<std::array<std::uint32_t, kPageArms>>(),
         model.at("windows").get<std::uint32_t>(), model.at("newest_window").get<std::uint64_t>(),
         model.at("kept_requests").get<std::uint64_t>(), model.at("open_requests").get<std::uint64_t>()});
  }
  return page;
}

json to_json(const RouterLoss& loss) {
  json text{{"why", loss.why},
            {"reason", loss.reason},
            {"pid", loss.pid},
            {"router_id", loss.router_id},
            {"replacement_pid", loss.replacement_pid},
            {"replacement_id", loss.replacement_id},
            {"down_ms", loss.down_ms}};
  if (loss.page) text["page"] = to_json(*loss.page);
  if (loss.unread) text["unread"] = *loss.unread;
  return text;
}

std::optional<RouterLoss> loss_from(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto text = parse_json(bytes);
  if (!text) return std::nullopt;
  try {
    RouterLoss loss;
    loss.why = text->at("why").get<std::string>();
    loss.reason = text->at("reason").get<std::string>();
    loss.pid = text->at("pid").get<int>();
    loss.router_id = text->at("router_id").get<std::string>();
    loss.replacement_pid = text->at("replacement_pid").get<int>();
    loss.replacement_id = text->at("replacement_id").get<std::string>();
    loss.down_ms = text->at("down_ms").get<std::int64_t>();
    if (text->contains("page")) loss.page = page_from((*text)["page"]);
    if (text->contains("unread")) loss.unread = (*text)["unread"].get<std::uint64_t>();
    loss.note = path;
    return loss;
  } catch (const json::exception&) {
    return std::nullopt;
  }
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
  const auto beside = path + ".new";
  std::ofstream file(beside, std::ios::trunc);
  file << to_json(loss).dump(-1, ' ', false, json::error_handler_t::replace);
  file.close();
  std::error_code error;
  if (file) fs::rename(beside, path, error);
  if (!file || error) {
    return schema::fail(schema::ErrorCode::io,
                        fmt::format("cannot keep what went with the router in {}", path));
  }
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
    if (name.starts_with(prefix) && !name.ends_with(".new"))
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
