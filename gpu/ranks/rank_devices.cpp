#include "gpu/ranks/rank_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/ranks/collective.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

std::unexpected<schema::Error> refuse(const std::string& text) {
  return schema::fail(ErrorCode::invalid_argument,
                      "devices '" + text + "' must be cpu, cuda, cuda:all or cuda:N,M…");
}

Result<std::vector<std::string>> parse_list(const std::string& text) {
  std::vector<std::string> out;
  std::string_view rest = std::string_view(text).substr(std::string_view("cuda:").size());
  for (;;) {
    const std::string_view digits = rest.substr(0, rest.find(','));
    std::uint32_t index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc{} || end != digits.data() + digits.size() || index >= kMaxDevices)
      return refuse(text);
    std::string name = fmt::format("cuda:{}", index);
    if (std::ranges::find(out, name) != out.end())
      return schema::fail(ErrorCode::invalid_argument, fmt::format("devices '{}' name {} twice", text, name));
    out.push_back(std::move(name));
    if (digits.size() == rest.size()) return out;
    rest.remove_prefix(digits.size() + 1);
  }
}

Result<std::vector<std::string>> all_cuda_devices() {
  std::vector<std::string> out;
  for (std::uint32_t index = 0; index < kMaxDevices; ++index) {
    std::string name = fmt::format("cuda:{}", index);
    const auto backend = Backend::open(name, 1, 1);
    if (!backend && index == 0) return std::unexpected(backend.error());
    if (!backend) break;
    out.push_back(std::move(name));
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> parse_devices(const std::string& text) {
  if (text == "cpu") return std::vector<std::string>{text};
  if (text == "cuda") return std::vector<std::string>{"cuda:0"};
  if (text == "cuda:all") return all_cuda_devices();
  return text.starts_with("cuda:") ? parse_list(text) : refuse(text);
}

Result<std::vector<std::string>> devices_of_ranks(const std::string& text, std::uint32_t ranks) {
  if (ranks > kMaxRanks)
    return schema::fail(ErrorCode::invalid_argument, fmt::format("at most {} ranks are possible", kMaxRanks));
  auto devices = parse_devices(text);
  if (!devices || ranks == 0) return devices;
  if (text == "cpu") return std::vector<std::string>(ranks, "cpu");
  if (devices->size() == ranks) return devices;
  return schema::fail(
      ErrorCode::invalid_argument,
      fmt::format("{} ranks were requested, but '{}' has {} devices, and a CUDA device has one rank", ranks,
                  text, devices->size()));
}

bool has_own_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (std::getenv("SLURM_JOB_ID") == nullptr || visible == nullptr || *visible == '\0') return false;
  const bool one = std::string_view(visible).find(',') == std::string_view::npos;
  return one || std::getenv("SLURM_GPUS_PER_TASK") != nullptr;
}

Result<std::string> device_of_process(const std::string& text, std::uint32_t local) {
  if (text == "cuda:all") return fmt::format("cuda:{}", local);
  const auto devices = TRY(parse_devices(text));
  if (text == "cpu") return text;
  if (local < devices.size()) return devices[local];
  return schema::fail(
      ErrorCode::invalid_argument,
      fmt::format(
          "process {} of this host has no device, because '{}' has {}; start one process for each device",
          local, text, devices.size()));
}

}  // namespace driftgate::gpu
