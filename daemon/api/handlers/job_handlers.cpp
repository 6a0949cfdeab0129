#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/handlers/service_handlers.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

using pipeline::Service;

Reply list_jobs(Context& context, const Call& call) {
  const auto page = TRY(page_request(call));
  const pipeline::JobFilter filter{.state = call.query("state"),
                                   .model = call.query("model"),
                                   .promotion = call.query("promotion"),
                                   .kind = call.query("kind")};
  return page_response(call, context.service.jobs(filter, page));
}

/// Its folder is shown to those who may see the settings, which name the folder of all jobs.
Reply get_job(Context& context, const Call& call) {
  const bool sees_settings = auth::require(call.principal, Scope::operator_).has_value();
  return view_response(context.service.job(call.path[0], sees_settings));
}

Reply get_job_log(Context& context, const Call& call) {
  pipeline::JobLogRequest request{.job = call.path[0], .file = call.query("file")};
  const auto offset = TRY(number_of(call, "offset"));
  if (offset) request.offset = static_cast<std::uint64_t>(*offset);
  const auto limit = TRY(number_of(call, "limit"));
  if (limit) request.limit = static_cast<std::size_t>(*limit);
  return view_response(context.service.job_log(request));
}

}  // namespace

void add_job_routes(std::vector<Route>& list) {
  RouteGroup jobs(list, "jobs");
  jobs.get("/v1/jobs", "listJobs", "Jobs of promotions that match all given filters, newest first",
           Scope::viewer, list_jobs)
      .query("state", "string", "pending, running, done, failed or cancelled")
      .query("model", "string", "of promotions of this model")
      .query("promotion", "string", "of this promotion")
      .query("kind", "string", "drift, capture or rescore")
      .pages("JobPage");
  jobs.get("/v1/jobs/{id}", "getJob",
           "One job: where it runs, how far it is, how it ended; for operators with its folder",
           Scope::viewer, get_job)
      .answer(200, "Job", "the job");
  jobs.get("/v1/jobs/{id}/log", "getJobLog",
           "What the programs of a job have printed. Nothing is left of it once the job's stage has ended",
           Scope::operator_, get_job_log)
      .query("file", "string", "one of `logs` of the job; absent: the newest")
      .query("offset", "integer", "from this byte on; absent: the end of what is there")
      .query("limit", "integer", "bytes at most; 65536 by default, 262144 at most")
      .answer(200, "JobLog", "a part; `next` is the offset of the one after it");
  jobs.post("/v1/jobs/{id}/cancel", "cancelJob",
            "End a job that has not ended; its promotion ends as errored, with the name of who asked and why",
            Scope::operator_, with_reason<&Service::cancel_job>)
      .body("ReasonRequest")
      .idempotent()
      .answer(200, "Job", "the job; it ends once its runner has ended it");
}

}  // namespace driftgate::api
