#pragma once

#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::schema {

inline constexpr std::size_t kMaxNameBytes = 128;

/// Checks a name that people give (of a kernel, model, engine, contract, token, schedule): segments joined by '/',
/// each a letter, digit or '_' and then letters, digits and any of ._:@+-, in all at most kMaxNameBytes bytes.
/// So a name is no option of a program, no path that leads upwards and no terminal sequence. `invalid_argument`
/// says what is wrong, with `what` ("a kernel's name") and, as its place, `where`.
[[nodiscard]] Result<void> check_name(std::string_view name, std::string_view what, std::string where = {});

/// What stands for a name when people are told apart: without regard to the case of ASCII letters, and with
/// characters that look alike taken for one (0 and o; 1, i and l; rn and m; vv and w).
[[nodiscard]] std::string identity_of(std::string_view name);
/// Whether two names may be taken for the same person's.
[[nodiscard]] bool is_same_identity(std::string_view one, std::string_view other);

/// How a decision of a person (approval_given, waiver_given) tells people apart, in its body's `people_rule`:
/// by identity_of since 2. Entries without the member were written when names were compared exactly, and are
/// judged so.
inline constexpr int kPeopleByIdentity = 2;

/// Whether the program itself writes entries under this name, or under one that looks like it: driftgate, console,
/// schedule, and everything below them ("schedule/nightly").
[[nodiscard]] bool is_reserved_name(std::string_view name);

}  // namespace driftgate::schema
