#pragma once

#include "daemon/pipeline/read/insight.hpp"

namespace driftgate::pipeline {

/// Insight::series in the caller's transaction.
[[nodiscard]] schema::Result<View> series_view(store::Reader& reader, const SeriesRequest& request);

/// The most figures of clauses in one answer: where many clauses have a series, each has fewer points.
inline constexpr std::size_t kMaxClauseFigures = 25'000;

}  // namespace driftgate::pipeline
