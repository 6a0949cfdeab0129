#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/api/streams/event_board.hpp"
#include "daemon/api/streams/promotion_feed.hpp"
#include "daemon/net/response.hpp"

namespace driftgate::api {

/// The event stream over all promotions: `hello` ({"tree_size", "server": {"version", "started_us"}}); each
/// entry of the log behind `after`, or from now on (id = sequence number, event = kind, data = the entry, or
/// of FeedOf::states what shown_to_all leaves of it); and `progress` without id, with the item of an open
/// promotion whenever that changed, at first of all, and once more when it has ended. When `after` is beyond
/// the log, which is then another one, `reset` ({"tree_size"}) comes first and the stream goes on from now.
/// It never ends by itself.
[[nodiscard]] std::shared_ptr<net::EventFeed> live_feed(std::shared_ptr<EventBoard> board, ServerFacts server,
                                                        std::optional<std::int64_t> after, FeedOf shown);

}  // namespace driftgate::api
