#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::jobs {

/// How many leading bytes `why_pickle_bytes` looks at.
inline constexpr std::size_t kPickleHeadBytes = 512;

/// `forbidden` for the file at `path`, where there is a reason.
[[nodiscard]] schema::Result<void> refuse_pickle(const std::string& path,
                                                 const std::optional<std::string>& why);

/// Why a file of this name may hold a Python pickle, which runs code when it is loaded; nothing for others.
/// Case does not matter.
[[nodiscard]] std::optional<std::string> why_pickle_name(std::string_view path);

/// The same by content: the head of a pickle of protocol 2 and newer, of one of protocol 0 or 1 (a start as
/// such files have it with the last byte '.', or opcodes up to their end or as far as `head` goes, whatever
/// follows), of a ZIP archive (as torch.save writes it) and of a NumPy array of objects.
[[nodiscard]] std::optional<std::string> why_pickle_bytes(std::string_view head, char last);

}  // namespace driftgate::jobs
