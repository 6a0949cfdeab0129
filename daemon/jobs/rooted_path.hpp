#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// Opens `uri` (a path, or "file://" and a path) for reading, below one of `roots`, with
/// openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS): no component may be a symbolic link or lead out of the
/// root. A relative path is tried below each root in order. `forbidden` when it lies below none of them,
/// `not_found` when it does not exist.
[[nodiscard]] schema::Result<base::UniqueFd> open_below(std::string_view uri,
                                                        const std::vector<std::string>& roots);

/// All bytes of the regular file that `open_below` opens; `limit_exceeded` when it has more than `limit`,
/// `invalid_argument` for what is no regular file.
[[nodiscard]] schema::Result<std::string> read_below(std::string_view uri,
                                                     const std::vector<std::string>& roots,
                                                     std::size_t limit);

/// The path that `open_below` opened, absolute; the same checks.
[[nodiscard]] schema::Result<std::string> resolve_below(std::string_view uri,
                                                        const std::vector<std::string>& roots);

}  // namespace driftgate::jobs
