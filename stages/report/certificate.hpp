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

/// The contents of a certificate. The pointers are not owned.
struct CertificateInputs {
  const gpu::MeasurementTable* table = nullptr;
  const std::vector<BoundChain>* chains = nullptr;  ///< [0] is the corpus, then slices
  const Diagnosis* diagnosis = nullptr;             ///< null: the page has no diagnosis
  Floors floors{};
  std::string contract_name, contract_digest;  ///< empty: no contract
  std::optional<schema::Verdict> verdict;      ///< of those clauses of the contract that captures can decide
  std::string table_digest, corpus_digest;     ///< "sha256:…"; empty: not known
  std::string device, code_version;
  double alpha = 0.05;
  std::uint64_t seed = 0;
  std::vector<std::string> commands;  ///< the commands that produce this page
  std::string note;                   ///< what the page leaves out, else empty
};

/// The certificate of a drift measurement as a page of Markdown, for people who release and people who audit:
/// what was measured, the links of the bound chain with the meaning and the assumptions of each figure, which
/// assumptions are unchecked, the slices with the worst first, and how to reproduce the page.
[[nodiscard]] std::string certificate_markdown(const CertificateInputs& inputs);

/// One sentence, without figures, on what the link of this name means; empty for an unknown name.
[[nodiscard]] std::string_view link_meaning(std::string_view name);

/// Escapes `text` so that Markdown shows it as it is, on one line.
[[nodiscard]] std::string markdown_text(std::string_view text);

}  // namespace driftgate::stages
