#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::fault {

/// Everything that readers can ask of a small log, as text; two of the same log are equal.
struct Answers {
  std::vector<std::string> entries;  ///< bytes by sequence number
  std::vector<std::string> queries;  ///< results of queries by model, promotion, kind, actor and clause
  bool operator==(const Answers&) const = default;
};

/// What became of opening the data folder `folder`: refused with a message, or served.
struct Opened {
  std::string refusal;             ///< of the store, of the check against the head, of a read; "" when none
  std::optional<Answers> answers;  ///< what was answered
  bool verified = false;           ///< by what a restore checks: the file, the log, what finds its entries
};

/// Starts on the folder as the daemon does, asks everything, verifies the log, and stops.
Opened open_folder(const std::filesystem::path& folder);

/// Writes `entries` entries about several models and promotions to the log in `folder`, in groups, and
/// leaves the folder as a stopped daemon does. With `image`, copies the files to it before the stop: what a
/// crash right then would leave, the last entries only in the WAL and their head published.
void write_log(const std::filesystem::path& folder, int entries, const std::filesystem::path& image = {});

/// Copies the database, its WAL, the head and the key; replaces what is in `to`.
void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to);

std::string bytes_of(const std::filesystem::path& path);
void put_bytes(const std::filesystem::path& path, const std::string& bytes);

}  // namespace driftgate::fault
