#pragma once

#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schema {

inline constexpr std::size_t kMaxNameBytes = 128;

/// Checks the name of a kernel, model, engine, contract, token or schedule: segments joined by '/', each a
/// letter, digit or '_' followed by letters, digits and any of ._:@+-, at most kMaxNameBytes bytes in all.
/// Such a name is never an option of a program, a path that leads upwards, or an escape sequence of a
/// terminal. Error: `invalid_argument`, whose message begins with `what` ("a kernel's name") and whose place
/// is `where`.
[[nodiscard]] Result<void> check_name(std::string_view name, std::string_view what, std::string where = {});

/// A form of the name that is equal for names that look alike: ASCII letters in lower case, and one character
/// for 0 and o; for 1, i and l; for rn and m; for vv and w.
[[nodiscard]] std::string identity_of(std::string_view name);
/// Whether two names may be taken for the name of the same person: their identity_of is equal.
[[nodiscard]] bool is_same_identity(std::string_view one, std::string_view other);

/// The version of the rule that tells people apart in approvals and waivers, recorded as `people_rule` in the
/// body of approval_given and waiver_given: from 2 on by identity_of. Entries without the member were written
/// when names were compared exactly, and are judged that way.
inline constexpr int kPeopleByIdentity = 2;

/// Whether the program itself writes entries under this name or one that looks like it: driftgate, console,
/// schedule, and everything below them ("schedule/nightly").
[[nodiscard]] bool is_reserved_name(std::string_view name);

}  // namespace driftgate::schema
