#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::net {

/// One server-sent event (WHATWG HTML, section 9.2). An empty id or name is not written.
struct SseEvent {
  std::string id;
  std::string name;
  std::string data;
};

/// The bytes of an event on the wire; newlines in data become several `data:` lines.
[[nodiscard]] std::string format_sse(const SseEvent& event);

/// Reads server-sent events from bytes that arrive in any pieces. Comments are skipped.
class SseParser {
 public:
  static constexpr std::size_t kMaxEventBytes = 1024 * 1024;

  /// Feeds bytes and calls `on_event` for each complete event; false from it stops the feeding.
  /// `limit_exceeded` when one event grows beyond kMaxEventBytes.
  schema::Result<void> feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& on_event);

 private:
  void take_line(std::string_view line);
  std::string line_;
  SseEvent event_;
  bool has_data_ = false;
  bool after_cr_ = false;
};

}  // namespace driftgate::net
