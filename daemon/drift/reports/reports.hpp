#pragma once

#include <cstddef>
#include <string>

#include "daemon/drift/drift_report.hpp"

namespace driftgate::drift {

// A report in the forms that continuous integration shows. Names that came with captures, corpora and
// contracts are untrusted: each form escapes its own markup and writes characters that cannot be seen as
// ⟨U+202E⟩. Equal reports give equal bytes: there is no time and no host in them.

/// JUnit XML as Jenkins, GitLab and GitHub's actions read it. One test case for each clause: a failure when
/// it is violated, an error when it could not be decided, skipped when the data do not suffice, when it is
/// soft and does not pass, or when captures cannot decide it. The message names the worst slice, its worst
/// rows and the recognised pattern. Two more cases carry the measurement and, if there are any, the warnings.
[[nodiscard]] std::string report_junit(const DriftReport& report);

/// Markdown in GitHub's flavour for a comment on a pull request, at most kMaxMarkdownBytes: the verdict, what
/// does not pass and where, then folded tables.
[[nodiscard]] std::string report_markdown(const DriftReport& report);
/// GitHub refuses comments of more than 65,536 characters.
inline constexpr std::size_t kMaxMarkdownBytes = 60'000;

/// One page of HTML that needs no script and no other file, light and dark: what does not pass, forest plots
/// of clauses and slices with intervals and limits, the tail of tv, the profile by position, the worst rows
/// and all tables.
[[nodiscard]] std::string report_html(const DriftReport& report);

}  // namespace driftgate::drift
