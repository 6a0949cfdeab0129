#include "daemon/app/logging.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

namespace driftgate::app {

Log::Log(const std::string& format, const std::string& level)
    : json_(format == "json"),
      logger_(
          std::make_shared<spdlog::logger>("driftgate", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_level(spdlog::level::from_str(level));
  logger_->flush_on(spdlog::level::info);
  logger_->set_pattern(json_ ? R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l","message":%v})"
                             : "%Y-%m-%dT%H:%M:%S.%eZ %-5l %v",
                       spdlog::pattern_time_type::utc);
}

Log::~Log() = default;

std::string Log::shaped(std::string_view text) const {
  if (json_) return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string line(text);
  // A text from outside cannot begin a new line in the log.
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return line;
}

void Log::write(std::string_view level, std::string_view text) const {
  const auto known = spdlog::level::from_str(std::string(level));
  logger_->log(known == spdlog::level::off ? spdlog::level::info : known, "{}", shaped(text));
}

}  // namespace driftgate::app
