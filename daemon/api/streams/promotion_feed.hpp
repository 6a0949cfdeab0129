#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/api/ports.hpp"
#include "daemon/net/response.hpp"
#include "daemon/pipeline/service.hpp"

namespace driftgate::api {

/// What an event stream shows of the entries about its promotion: each entry as it is, for who may read the log; or
/// states and shares only, as anybody may see them in the promotion and its route.
enum class FeedOf : std::uint8_t { states, entries };

/// The event stream of one promotion: the evidence entries about it (id = sequence number, event = kind, data
/// = the entry), a `progress` event without id with the promotion's view whenever that changed, and `end`
/// with the final view after the last entry of a promotion that has ended. `after`: the last id that the
/// client has. Of FeedOf::states is what shown_of_states leaves of the entries.
[[nodiscard]] std::shared_ptr<net::EventFeed> promotion_feed(pipeline::Service& service,
                                                             EvidencePort& evidence, std::string promotion,
                                                             std::optional<std::int64_t> after, FeedOf shown);

/// Answers with the promotion's view once it has ended, or as it is when `wait` is over. `first` is the
/// answer without waiting: its status and headers are kept.
[[nodiscard]] std::shared_ptr<net::Deferred> promotion_wait(pipeline::Service& service, std::string promotion,
                                                            net::Response first,
                                                            std::chrono::milliseconds wait);

}  // namespace driftgate::api
