#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace driftgate::app {

/// Structured log lines on standard error: time, level, message, and `name=value` fields in the message.
class Log {
 public:
  /// `format` is "text" or "json"; `level` debug, info, warn or error.
  Log(const std::string& format, const std::string& level);
  ~Log();
  void debug(std::string_view text) const { write("debug", text); }
  void info(std::string_view text) const { write("info", text); }
  void warn(std::string_view text) const { write("warning", text); }
  void error(std::string_view text) const { write("error", text); }
  /// By the name of the level, "warn" and "warning" being the same; an unknown one is info.
  void write(std::string_view level, std::string_view text) const;

 private:
  [[nodiscard]] std::string shaped(std::string_view text) const;
  const bool json_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace driftgate::app
