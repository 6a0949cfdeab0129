#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/settings.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// Checks a recipe's parts as those of a promotion request are checked: for each kernel that it names and,
/// where its own members name a contract, for that contract's kernel. An error about the JSON pointer for
/// what can never do: a contract, a kernel, an engine or an adapter that is not registered, a contract for
/// another kernel, a path outside the roots. Sentences for what may still come: a capture that is not written
/// yet, a part that a request would have to name.
[[nodiscard]] schema::Result<std::vector<std::string>> check_recipe(store::Store& store,
                                                                    const Settings& settings,
                                                                    std::string_view document);

}  // namespace driftgate::pipeline
