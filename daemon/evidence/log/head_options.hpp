#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace driftgate::evidence {

struct HeadOptions {
  std::string origin = "driftgate.local/log";  ///< names the log in its checkpoints; no spaces or '+'
  std::filesystem::path key_file{};   ///< empty: <data_dir>/log.key; generated (0600) at the first start
  std::filesystem::path head_file{};  ///< empty: <data_dir>/head.note; better on another disk
  std::int64_t now_us = 0;            ///< wall clock, noted beside a key that is used for the first time
};

}  // namespace driftgate::evidence
