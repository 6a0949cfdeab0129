#include "daemon/evidence/verify/verify_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/log/head_check.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/verify/entry_check.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/store/backup.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;
using store::Reader;

namespace {

/// Which result says most about the others, first to last.
constexpr std::array kOrder = {BundleResult::tampered, BundleResult::untrusted, BundleResult::forked,
                               BundleResult::incomplete, BundleResult::underivable};

class Verification {
 public:
  Verification(store::Store& store, const FolderRequest& request) : store_(store), request_(request) {}

  Result<FolderReport> run() {
    auto whole = store::check_database(store_.data_dir() / "driftgate.db");
    if (!whole && whole.error().code != ErrorCode::corrupt) return std::unexpected(std::move(whole.error()));
    if (!whole) add(BundleResult::tampered, {"the database", whole.error().message});
    auto options = TRY(options_in_force(store_, request_.head));
    options_ = std::move(options);
    auto done = store_.read([&](Reader& reader) { return check_heads(reader); });
    if (done) done = check_entries();
    if (done) done = check_tables();
    if (!done) return std::unexpected(std::move(done.error()));
    for (const BundleResult result : kOrder) {
      if (std::ranges::find(report_.findings, result, &FolderReport::Finding::result) ==
          report_.findings.end())
        continue;
      report_.result = result;
      break;
    }
    return std::move(report_);
  }

 private:
  void add(BundleResult result, Difference difference) {
    report_.findings.push_back({result, std::move(difference)});
  }

  /// An error that says what was found, as a finding; another one is of reading.
  Result<void> as_finding(BundleResult result, const char* where, const schema::Error& error) {
    if (error.code != ErrorCode::corrupt && error.code != ErrorCode::forbidden) return std::unexpected(error);
    add(result, {where, error.describe()});
    return {};
  }

  Result<void> check_heads(Reader& reader) {
    auto size = TRY(tree_size(reader));
    report_.entries = size;
    auto done = check_own_head(reader, size);
    if (done) done = check_outside(reader, size);
    if (done && request_.older_head) done = check_kept(reader, size);
    return done;
  }

  /// The head that the database keeps. Its size and root are what the entries are compared with.
  Result<void> check_own_head(Reader& reader, std::uint64_t size) {
    auto head = check_stored(reader, options_.origin, std::nullopt, request_.trust);
    if (head && *head) {
      signed_.emplace((*head)->stored.size, (*head)->root);
      return {};
    }
    if (head && !commits_are_signed(options_)) {
      if (size > 0) {
        add(BundleResult::incomplete,
            {"the signed head of the log",
             "there is none yet: a daemon of this version must start on the folder once"});
      }
      return {};
    }
    if (!head && head.error().code == ErrorCode::forbidden) {
      return as_finding(BundleResult::untrusted, "the signed head of the log", head.error());
    }
    return as_finding(BundleResult::tampered, "the signed head of the log",
                      head ? emptied_head(options_).error() : head.error());
  }

  Result<void> check_outside(Reader& reader, std::uint64_t size) {
    std::error_code ignored;
    if (!std::filesystem::exists(options_.head_file, ignored)) {
      if (size == 0) return {};
      add(BundleResult::incomplete, {"the published head", options_.head_file.string() + " is not there"});
      return {};
    }
    auto head = check_published(reader, options_, std::nullopt, request_.trust);
    return head ? Result<void>() : as_finding(BundleResult::forked, "the published head", head.error());
  }

  /// A head that somebody kept: the log must continue it.
  Result<void> check_kept(Reader& reader, std::uint64_t size) {
    constexpr const char* kWhere = "the head that was kept";
    const auto said = read_checkpoint(*request_.older_head);
    if (!said) return as_finding(BundleResult::tampered, kWhere, said.error());
    const Checkpoint& kept = said->checkpoint;
    bool is_trusted = false;
    for (const TrustedKey& key : head_keys_at(request_.trust, options_.origin, kept.size)) {
      is_trusted = is_trusted || open_checkpoint(*request_.older_head, options_.origin, key.key).has_value();
    }
    if (kept.origin != options_.origin) {
      add(BundleResult::forked,
          {kWhere, fmt::format("it is of the log '{}', and this is '{}'", kept.origin, options_.origin)});
      return {};
    }
    if (!is_trusted) {
      add(BundleResult::untrusted, {kWhere, "no key of the trust file for its size signed it"});
      return {};
    }
    auto root = TRY(kept.size <= size ? root_at(reader, kept.size) : Result<Hash>(Hash{}));
    if (root == kept.root) return {};
    add(BundleResult::forked,
        {kWhere, fmt::format("the log of {} entries does not continue its {} entries", size, kept.size)});
    return {};
  }

  Result<void> check_entries() {
    if (!signed_) {
      // Without a signed head to compare with, the entries are still compared with the tree.
      auto root = store_.read([&](Reader& reader) { return root_at(reader, report_.entries); });
      if (!root) return as_finding(BundleResult::tampered, "the tree", root.error());
      signed_.emplace(report_.entries, *root);
    }
    std::vector<Difference> found;
    for (bool more = true; more;) {
      auto step = store_.read([&](Reader& reader) { return signed_->step(reader, found); });
      if (!step) return as_finding(BundleResult::tampered, "the entries", step.error());
      more = *step;
    }
    for (Difference& difference : found) add(BundleResult::tampered, std::move(difference));
    return {};
  }

  Result<void> check_tables() {
    const auto whole = store_.read(is_indexed);
    if (!whole) return as_finding(BundleResult::tampered, "the index of the log", whole.error());
    if (!*whole) add(BundleResult::incomplete, {"the tables", "they are not compared without a whole index"});
    auto found = *whole ? compare_all_tables(store_, [] { return true; }) : compare_index(store_);
    if (!found) return as_finding(BundleResult::tampered, "the tables", found.error());
    for (Difference& difference : *found) {
      const bool unfinished = difference.unfinished;
      add(unfinished ? BundleResult::incomplete : BundleResult::tampered, std::move(difference));
    }
    return {};
  }

  store::Store& store_;
  const FolderRequest& request_;
  HeadOptions options_;
  std::optional<EntryCheck> signed_;
  FolderReport report_;
};

}  // namespace

Result<FolderReport> verify_folder(store::Store& store, const FolderRequest& request) {
  return Verification(store, request).run();
}

}  // namespace driftgate::evidence
