#include "daemon/cli/drift/drift_ranks.hpp"

#include "daemon/cli/exit_codes.hpp"

namespace driftgate::cli {

using schema::ErrorCode;
using schema::Result;

namespace {

std::unexpected<schema::Error> usage(const std::string& text) {
  return schema::fail(ErrorCode::invalid_argument, text);
}

}  // namespace

Result<gpu::RankSession> start_ranks(const DriftArgs& args) {
  constexpr double kLongestSeconds = 86'400;
  gpu::SessionRequest request;
  if (args.shard == "rows") request.shard = gpu::Shard::rows;
  if (args.shard == "vocab") request.shard = gpu::Shard::vocab;
  if (!request.shard && args.shard != "auto")
    return usage("--shard is auto, rows or vocab, not '" + args.shard + "'");
  if (!(args.timeout_s >= 0.001 && args.timeout_s <= kLongestSeconds))
    return usage("--timeout is a number of seconds up to 86400");
  const std::string& exchange = args.exchange;
  if (exchange != "auto" && exchange != "threads" && exchange != "mpi" && exchange != "nccl")
    return usage("--exchange is auto, threads, mpi or nccl, not '" + exchange + "'");
  if (exchange == "nccl" && !args.device.starts_with("cuda"))
    return usage("--exchange nccl is between CUDA devices: name them with --devices");
  request.device = args.device;
  request.ranks = args.ranks;
  request.exchange = exchange;
  request.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(args.timeout_s * 1'000));
  request.other_number = "leave --ranks out, or start as many processes";
  return gpu::RankSession::start(request);
}

void fail(gpu::RankSession& ranks, const schema::Error& error) {
  if (ranks.reports(error)) report(error);
  ranks.fail(error);
}

}  // namespace driftgate::cli
