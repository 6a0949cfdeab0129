#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cli/live/line.hpp"
#include "daemon/cli/live/promotion_picture.hpp"

namespace driftgate::cli::live {

/// What the screen shows besides the promotion itself.
struct News {
  std::vector<std::string> events;   ///< lines of the log, the newest last
  std::string remaining;             ///< about how long the running job takes; "" when not known
  std::int64_t last_message_us = 0;  ///< when the daemon was last heard of
  std::string lost;                  ///< why the connection is lost; "" while it is there
};

/// The screen of a promotion: at most `shape.rows` lines, to be cut to `shape.columns`.
[[nodiscard]] std::vector<Line> promotion_lines(const PromotionPicture& picture, const News& news,
                                                const Shape& shape, std::int64_t now_us);

}  // namespace driftgate::cli::live
