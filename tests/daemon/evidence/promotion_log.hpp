#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/evidence/bundle/bundle_export.hpp"
#include "daemon/evidence/bundle/verify_bundle.hpp"
#include "daemon/evidence/log/head_publisher.hpp"
#include "tests/daemon/evidence/entries.hpp"
#include "tests/daemon/store/rows.hpp"
#include "tests/daemon/store/temp_dir.hpp"

namespace driftgate::evidence::testing {

using Body = schema::EntryValue::Object;

inline const std::string kContract =
    R"({"numerical":[{"id":"kl"},{"id":"soft","severity":"soft"}],"slices":{"critical":[{"language":"de"}]}})";
inline const std::vector<std::string> kLadder = {"offline-numeric", "statistical-slice", "shadow-runtime",
                                                 "canary"};

/// The body of a clause's verdict by the rule "limits", with limits that give `verdict`.
[[nodiscard]] Body clause_body(const std::string& verdict, const std::string& clause = "numerical.kl");
/// The body of a stage's decision over `count` clauses from entry `first` on.
[[nodiscard]] Body stage_body(const std::string& verdict, std::int64_t first, std::int64_t count);

/// A bundle as its lines, to be changed.
using Lines = std::vector<nlohmann::json>;

/// A change of a bundle's lines, and what the verifier must find then.
struct Change {
  const char* what;
  std::function<void(Lines&)> make;
  BundleResult result;
  const char* words;
};

/// A data folder whose log holds the promotion "pr-1", entry by entry as a daemon writes them, with all that
/// its bundles are made and verified with.
struct PromotionLog {
  store::testing::TempDir dir;
  std::unique_ptr<store::Store> store = store::testing::open_store(dir.path());
  std::unique_ptr<HeadPublisher> heads;
  std::optional<AttestationSigner> signer;
  std::string contract;  ///< digest of kContract, which is stored
  VerifyOptions options;
  std::int64_t now_us = 1'000;
  std::string state_now;

  PromotionLog();
  ~PromotionLog();

  /// Appends an entry about pr-1, ten microseconds after the one before; its seq.
  std::int64_t add(schema::EvidenceKind kind, const std::string& actor, Body body,
                   const std::string& stage = {}, std::int64_t attempt = 1);
  void request(const std::string& requester = "bob");
  void state(const std::string& to, const std::string& stage, const std::string& actor = "driftgate");
  /// A stage run with one clause: `verdict` is the clause's and the stage's.
  void stage(const std::string& name, const std::string& verdict = "pass", const std::string& inputs = {});
  void waive(const std::string& who, const std::string& decision = "waive");
  /// Request, the four stages, an approval and the end: 16 entries.
  void succeed();

  [[nodiscard]] std::string bundle(const BundleRequest& request = {.promotion = "pr-1"});
  [[nodiscard]] BundleReport verify(const std::string& bytes) const;
  /// Makes each change alone, and checks what the verifier finds in the text that `spell` makes of the lines.
  void check_changes(const Lines& lines, const std::vector<Change>& changes,
                     const std::function<std::string(const Lines&)>& spell) const;
};

/// "result: message", one finding a line.
[[nodiscard]] std::string text_of(const BundleReport& report);

/// Checks the result of a report and that its findings contain `words`.
void check_report(const BundleReport& report, BundleResult result, const std::string& words);

void erase_line(Lines& lines, std::size_t at);
[[nodiscard]] Lines lines_of(const std::string& bundle);
[[nodiscard]] std::string joined(const Lines& lines);
/// With the counts and the digest of the end made anew, as whoever forges a bundle would.
[[nodiscard]] std::string sealed(Lines lines);
/// Where the lines of a kind begin.
[[nodiscard]] std::size_t first_of(const Lines& lines, const std::string& kind);

}  // namespace driftgate::evidence::testing
