#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/evidence/verify/contract_terms.hpp"
#include "schema/evidence/evidence_entry.hpp"
#include "schema/verdict.hpp"

namespace driftgate::evidence {

/// The clause verdict that an entry `verdict_reached` records; `invalid_document` when it is none. Entries that
/// state no version of the rules are of the first, and write numbers in their own way (docs/evidence.md).
[[nodiscard]] schema::Result<schema::ClauseVerdict> clause_verdict_of(const schema::EntryValue::Object& body);

/// What a stage came to, with the verdicts that it follows from.
struct StageDecision {
  std::int64_t seq = 0;
  std::string stage{};
  std::int64_t attempt = 1;
  schema::Verdict verdict = schema::Verdict::error;
  bool ended = true;  ///< false: a look after which the stage went on
  std::string action{};
  std::string inputs_digest{}, report_digest{}, code_version{}, seed{};
  std::int64_t run = 0;  ///< k: the α was that of the k-th run
  std::uint32_t rules = schema::kFirstRules;  ///< version of the rules that it was decided by
  std::vector<schema::ClauseVerdict> clauses{};
};

/// Follows the entries about one promotion in the order of the log and derives each verdict again: a clause's
/// from its recorded numbers (schema::rederive), a stage's from its clauses (schema::combine, and the
/// canary's action), both by the version of the rules that they record; the promotion's state from its stages
/// and the people who acted. What does not follow is a fault.
class PromotionDerivation {
 public:
  using OnFault = std::function<void(std::int64_t seq, const std::string& what)>;
  /// `first_seq`: entries before it were not given, and what rests on them is not checked.
  explicit PromotionDerivation(OnFault on_fault, std::int64_t first_seq = 0);

  /// With its contract, clauses, roles of slices and severities are checked against it.
  void set_contract(ContractTerms contract) { contract_ = std::move(contract); }
  void follow(const schema::Entry& entry);

  /// Whether the request itself was given.
  [[nodiscard]] bool whole() const { return whole_; }
  /// Decisions that ended an attempt, in the order of the log.
  [[nodiscard]] const std::vector<StageDecision>& decisions() const { return decisions_; }
  /// Whether the newest attempt of the stage passed, or was inconclusive and waived by two people.
  [[nodiscard]] bool is_passed(const std::string& stage) const;
  [[nodiscard]] const schema::EvidenceSubject& subject() const { return subject_; }
  [[nodiscard]] const std::string& state() const { return state_; }
  [[nodiscard]] const std::string& traffic() const { return traffic_; }
  [[nodiscard]] bool has_ended() const;
  [[nodiscard]] std::int64_t ended_us() const { return ended_us_; }
  [[nodiscard]] std::uint64_t verdicts() const { return verdicts_; }
  /// Digests that the entries name: of the contract, measurement tables, reports and approved evidence.
  [[nodiscard]] const std::set<std::string>& named_digests() const { return named_; }

 private:
  struct Pending {
    std::int64_t seq = 0;
    std::string stage{};
    std::int64_t attempt = 1;
    bool states_rules = false;
    schema::ClauseVerdict verdict{};
  };

  void requested(const schema::Entry& entry);
  void clause_decided(const schema::Entry& entry);
  void stage_decided(const schema::Entry& entry);
  void state_changed(const schema::Entry& entry);
  void person_decided(const schema::Entry& entry);
  void check_derived(std::int64_t seq, const schema::ClauseVerdict& verdict);
  void check_batch(const StageDecision& decision, std::int64_t first, std::int64_t count, bool states_rules);
  void check_progress(std::int64_t seq, const std::string& to_stage);
  void check_end(const schema::Entry& entry);
  [[nodiscard]] bool is_waived(const StageDecision& decision) const;
  [[nodiscard]] bool asked_for(const std::string& actor, bool by_identity) const;

  OnFault on_fault_;
  std::int64_t first_seq_;
  std::optional<ContractTerms> contract_{};
  bool whole_ = false;
  schema::EvidenceSubject subject_{};
  std::set<std::string> askers_{};  ///< the requester, who set the schedule that asked, and the recipe
  std::string state_{}, traffic_ = "never_exposed", stage_{};
  std::int64_t ended_us_ = 0;
  std::uint64_t verdicts_ = 0;
  std::vector<Pending> pending_{};
  std::vector<StageDecision> decisions_{};
  /// Who waived a clause. How names are told apart is what the newest waiver says (schema/names.hpp): one that was
  /// written when they were compared exactly stays what it was.
  struct Waivers {
    std::set<std::string> names{}, identities{};
    bool by_identity = false;
  };
  std::map<std::string, Waivers> waivers_{};  ///< by report digest and clause
  std::set<std::string> named_{};
};

}  // namespace driftgate::evidence
