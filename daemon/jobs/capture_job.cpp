#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/algorithm/string/replace.hpp>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/jobs/program.hpp"
#include "daemon/jobs/worker.hpp"
#include "schema/json.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

/// Of an adapter's output, what a message quotes.
constexpr std::size_t kQuotedBytes = 400;

/// With which a shell, env or an interpreter says that it did not find a program or a library.
constexpr int kNotFound = 127;

/// What somebody lacks whose adapter works in a terminal.
std::string about_environment() {
  constexpr auto kMeaning =
      " (a program or a library was not found: an adapter's environment is {} and nothing else, no HOME, "
      "LD_LIBRARY_PATH, PYTHONPATH or virtual environment; name programs by absolute paths, or let the "
      "adapter be a script that sets what they need)";
  return fmt::format(kMeaning, fmt::join(environment_of_program(), " "));
}

std::string tail(const std::string& output) {
  return output.size() <= kQuotedBytes ? output : output.substr(output.size() - kQuotedBytes);
}

}  // namespace

schema::Result<JobResult> run_capture(const CapturePayload& payload, const JobLimits& limits,
                                      const JobFolder& folder) {
  const auto out = folder.file(kCaptureFile);
  Program program;
  for (const auto& word : payload.argv) program.argv.push_back(boost::replace_all_copy(word, "{out}", out));
  program.working_folder = folder.path().string();
  program.limits = limits;
  program.on_start = [&](int group) { (void)folder.put("group", std::to_string(group)); };
  program.on_output = [&](std::string_view bytes) { folder.append("log", bytes); };
  folder.report({0, 1, "capture", fmt::format("adapter {} runs", payload.adapter)});
  const auto ended = TRY(run_program(program));
  if (ended.signal == SIGXCPU)
    return schema::fail(
        ErrorCode::limit_exceeded,
        fmt::format("adapter {} used more CPU time than its limit allows; raise jobs.cpu_limit_s",
                    payload.adapter));
  if (ended.exit_code != 0) {
    return schema::fail(
        ErrorCode::unavailable,
        fmt::format("adapter {} ended with {} {}{}; its last output: {}", payload.adapter,
                    ended.signal != 0 ? "signal" : "exit code",
                    ended.signal != 0 ? ended.signal : ended.exit_code,
                    ended.exit_code == kNotFound ? about_environment() : "", tail(ended.output)));
  }
  // By a link the capture would be a file that others can change, and on a pipe the digest would wait.
  std::error_code none;
  const bool regular = std::filesystem::is_regular_file(std::filesystem::symlink_status(out, none));
  auto digest = regular ? file_digest(out) : schema::fail(ErrorCode::not_found, "not a regular file");
  if (!digest) {
    return schema::fail(ErrorCode::not_found, fmt::format("adapter {} succeeded but did not write {}",
                                                          payload.adapter, kCaptureFile));
  }
  const auto adapter = file_digest(program.argv.front());
  JobResult result;
  result.ok = true;
  result.files["capture"] = kCaptureFile;
  result.digests["capture"] = *digest;
  if (adapter) result.digests["adapter"] = *adapter;
  const nlohmann::json summary{
      {"adapter", payload.adapter}, {"argv", program.argv}, {"output_cut", ended.output_cut}};
  result.summary = schema::canonical_json(summary);
  folder.report({1, 1, "capture", "written"});
  return result;
}

}  // namespace driftgate::jobs
