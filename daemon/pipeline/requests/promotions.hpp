#pragma once

#include <functional>
#include <string>

#include "daemon/pipeline/context.hpp"

namespace driftgate::pipeline {

/// Installs a model's first version at 100%, routed at once.
[[nodiscard]] schema::Result<std::string> create_model(Context& context, const std::string& actor,
                                                       const ModelRequest& request);

/// Gets the row of a request in its transaction.
using AlsoRequested = std::function<schema::Result<void>(store::Tx&, Entries&, const store::PromotionRow&)>;
/// Stores a request; queued ones of the same model are superseded; it starts when nothing holds the model.
/// `verified`: the checkpoint's files were found to be those that were registered. `also` may be empty.
[[nodiscard]] schema::Result<std::string> request_promotion(Context& context, const std::string& actor,
                                                            const CheckedRequest& checked, bool verified,
                                                            const AlsoRequested& also = {});
/// Starts the newest queued promotion of a model when nothing holds it. Older ones, which a kill right after
/// a newer request may have left, are superseded.
void start_next(Context& context, const std::string& model);

}  // namespace driftgate::pipeline
