#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/cli/contract/contract_tools.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/setup/ports.hpp"
#include "daemon/cli/setup/setup_commands.hpp"
#include "daemon/cli/setup/working_folder.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;
using schema::ErrorCode;
using schema::fail;
using schema::Result;

constexpr std::uint16_t kApiPort = 7433, kRouterPort = 8080, kEnginePort = 8101;

/// A folder that is new or empty, and near enough to the root that sockets can lie in it.
Result<fs::path> checked_folder(const std::string& name) {
  std::error_code error;
  const fs::path folder = (fs::absolute(name) / "").lexically_normal().parent_path();
  // The files name the folder, some of them in comments, which end with a line.
  if (std::ranges::any_of(folder.string(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return fail(ErrorCode::invalid_argument,
                "the path of the folder has control characters: name another one");
  const auto status = fs::status(folder, error);
  if (fs::exists(status) && !fs::is_directory(status))
    return fail(ErrorCode::already_exists, fmt::format("{} is there and is no folder", folder.string()));
  if (fs::is_directory(status) && !fs::is_empty(folder, error))
    return fail(ErrorCode::already_exists,
                fmt::format("{} is not empty: name a new folder, or an empty one", folder.string()));
  if (error && fs::exists(status))
    return fail(ErrorCode::io, fmt::format("cannot read {}: {}", folder.string(), error.message()));
  const std::size_t length = (folder / "data" / "router.sock").string().size();
  if (length > kMaxSocketPath)
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("the path {} is {} bytes too long for the router's socket below it: choose a shorter one",
                    folder.string(), length - kMaxSocketPath));
  return folder;
}

Result<fs::path> existing(const std::string& option, const std::string& path) {
  std::error_code error;
  auto found = fs::canonical(path, error);
  if (!error) return found;
  return fail(ErrorCode::io, fmt::format("{} {}: {}", option, path, error.message()));
}

Result<FolderPlan> plan_of(const InitArgs& args) {
  FolderPlan plan;
  plan.folder = TRY(checked_folder(args.folder));
  if (!args.example.empty()) {
    plan.example = TRY(find_example(args.example, own_executable()));
    plan.contract = TRY(base::read_file(plan.example->contract));
  }
  if (!args.train.empty()) {
    FirstCaptures captures;
    captures.train = TRY(existing("--train", args.train));
    captures.inf = TRY(existing("--inf", args.inf));
    if (!args.corpus.empty()) captures.corpus = TRY(existing("--corpus", args.corpus));
    SuggestArgs suggest;
    suggest.train = captures.train;
    suggest.inf = captures.inf;
    suggest.corpus = captures.corpus;
    suggest.name = "first";
    plan.contract = TRY(suggested_contract(suggest));
    plan.captures = std::move(captures);
  }
  std::vector<std::uint16_t> chosen;
  const auto next = [&chosen](std::uint16_t from) {
    chosen.push_back(first_free_port(from, chosen));
    return chosen.back();
  };
  plan.api_port = next(kApiPort);
  plan.router_port = next(kRouterPort);
  if (plan.example)
    for (std::uint16_t i = 0; i < 2; ++i)
      plan.engine_ports.push_back(next(static_cast<std::uint16_t>(kEnginePort + i)));
  return plan;
}

/// What was made so far; undone unless it is kept.
class Made {
 public:
  Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    std::error_code error;
    for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) fs::remove(*path, error);
  }
  Result<void> folder(const fs::path& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) return {};
    if (path.has_relative_path()) TRY(folder(path.parent_path()));
    if (::mkdir(path.c_str(), 0755) != 0) return base::file_failure("make", path);
    paths_.push_back(path);
    return {};
  }
  Result<void> file(const fs::path& path, const FolderFile& file) {
    TRY(folder(path.parent_path()));
    TRY(base::write_file_durably(path, file.text, file.mode, base::IfPresent::refuse));
    paths_.push_back(path);
    return {};
  }
  void keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

Result<void> write_folder(const FolderPlan& plan) {
  Made made;
  TRY(made.folder(plan.folder));
  for (const auto& file : folder_files(plan)) TRY(made.file(plan.folder / file.path, file));
  made.keep();
  return {};
}

std::string ports_text(const FolderPlan& plan) {
  if (plan.api_port == kApiPort && plan.router_port == kRouterPort) return {};
  return fmt::format("Usual ports are taken on this machine: the API gets {}, users {}.\n", plan.api_port,
                     plan.router_port);
}

}  // namespace

int init_command(const InitArgs& args) {
  if (!args.example.empty() && !args.train.empty()) {
    fmt::print(stderr, "driftgate: init takes --example, or --train and --inf\n");
    return kExitUsage;
  }
  if (args.train.empty() != args.inf.empty() || (args.train.empty() && !args.corpus.empty())) {
    fmt::print(stderr,
               "driftgate: init suggests a contract from both --train and --inf, with --corpus or without\n");
    return kExitUsage;
  }
  const auto plan = plan_of(args);
  if (!plan) return report_offline(plan.error());
  if (const auto written = write_folder(*plan); !written) return report_offline(written.error());
  std::string files;
  for (const auto& file : folder_files(*plan)) files += "  " + file.path + "\n";
  print(fmt::format("{}{} is a working folder:\n{}Read its README.md, then: driftgate dev {}\n",
                    ports_text(*plan), plan->folder.string(), files, shell_word(args.folder)));
  return kExitOk;
}

}  // namespace driftgate::cli
