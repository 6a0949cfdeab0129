#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/verdict.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/clauses/floor.hpp"
#include "stages/diagnosis/diagnosis.hpp"

namespace driftgate::stages {

/// Everything that a certificate tells. Pointers are not owned and outlive the call.
struct CertificateInputs {
  const gpu::MeasurementTable* table = nullptr;
  const std::vector<BoundChain>* chains = nullptr;  ///< [0] is the corpus, then slices
  const Diagnosis* diagnosis = nullptr;             ///< null: not told
  Floors floors{};
  std::string contract_name, contract_digest;  ///< empty: no contract
  std::optional<schema::Verdict> verdict;      ///< of the contract's clauses that captures can decide
  std::string table_digest, corpus_digest;     ///< "sha256:…" of what was read and made; empty: not known
  std::string device, code_version;
  double alpha = 0.05;
  std::uint64_t seed = 0;
  std::vector<std::string> commands;  ///< that make this page again
  std::string note;                   ///< what the page leaves out, or empty
};

/// The certificate of a drift measurement as a page of Markdown, for those who release and those who audit:
/// what was measured, the bound chain in order with what each figure means and rests on, what is unchecked,
/// the slices with the worst first, and how to make the page again.
[[nodiscard]] std::string certificate_markdown(const CertificateInputs& inputs);

/// What the link of this name says, in one plain sentence without figures; nothing for an unknown name.
[[nodiscard]] std::string_view link_meaning(std::string_view name);

/// `text` so that Markdown shows it as it is, on one line.
[[nodiscard]] std::string markdown_text(std::string_view text);

}  // namespace driftgate::stages
