#include <fmt/format.h>

#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/read/job_views.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/look_up.hpp"

namespace driftgate::pipeline::people {

using schema::ErrorCode;

/// The request is stored before the runner is told of it, and told again whenever a job with one is started:
/// a daemon that dies in between loses nothing. The job's end names the person (put_ended_job).
Done cancel_job(Context& context, const std::string& actor, const std::string& id,
                const std::string& reason) {
  const auto row = TRY(look_up(context.world.store, store::get_job, id));
  if (row.ended_us)
    return schema::fail(ErrorCode::conflict,
                        fmt::format("job {} has ended: it is {}", id, store::to_string(row.state)));
  if (row.cancelled_us) return {};
  TRY(context.commit_rows("cancel job", [&](store::Tx& tx, Entries&) -> Done {
    TRY(store::request_cancel(tx, id, actor, reason, context.now()));
    return note_made(tx, id, [&]() -> schema::Result<View> {
      const auto asked = TRY(store::get_job(tx, id));
      return job_view(asked, context.world.runner, {}, false);
    });
  }));
  context.effects.emplace_back(CancelJob{job_key(row.stage, row.name)});
  return {};
}

}  // namespace driftgate::pipeline::people
