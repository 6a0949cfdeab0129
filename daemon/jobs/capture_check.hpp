#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/capture/capture_head.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// What the captures of a promotion must be of.
struct CapturesOf {
  std::string train_kernel, inf_kernel;  ///< by the contract
  std::string checkpoint;                ///< digest of what the candidate's engine serves
  bool operator==(const CapturesOf&) const = default;
};

/// What one capture must state where it states anything.
struct CaptureOf {
  std::string kernel, checkpoint;
  std::string corpus{};  ///< digest of the corpus given; "": none was
};

/// Whether a capture is of this promotion: `not_comparable`, with what it states, what is needed and what to
/// do. `name` ("the train capture") begins the message. What the capture does not state is not compared.
[[nodiscard]] schema::Result<void> check_capture(const gpu::CaptureIdentity& identity,
                                                 const CaptureOf& wanted, std::string_view name);

/// The head of a capture below one of the roots; of the first file of a folder. The file is not mapped, so
/// that a daemon may read it while somebody writes to it.
[[nodiscard]] schema::Result<gpu::CaptureHead> read_capture_head(const std::string& uri,
                                                                 const std::vector<std::string>& roots);

}  // namespace driftgate::jobs
