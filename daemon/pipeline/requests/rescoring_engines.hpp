#pragma once

#include <string>

#include "daemon/jobs/rescoring/kept_answers.hpp"
#include "daemon/store/store.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

/// The engines that score live answers again for a guard.
struct RescoringEngines {
  jobs::RescoreEngine reference;  ///< of the training kernel
  jobs::RescoreEngine served;     ///< of the version that serves
  std::string why;                ///< why no answer can be scored again; "" = it can
};

/// The engines for the version of `checkpoint` on the engine `served`: the reference is the first registered
/// engine, other than that one, that serves the checkpoint with the contract's training kernel and was seen
/// to score tokens that it is given. Errors: those of the store.
[[nodiscard]] schema::Result<RescoringEngines> find_rescoring_engines(store::Reader& reader,
                                                                      const schema::Contract& contract,
                                                                      const std::string& model,
                                                                      const std::string& served,
                                                                      const std::string& checkpoint);

}  // namespace driftgate::pipeline
