#include "daemon/pipeline/guard/rescoring_state.hpp"

#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

}  // namespace

std::string to_json(const GuardRescoring& rescoring) {
  json value{{"why", rescoring.why},
             {"reference", rescoring.reference},
             {"part", rescoring.part},
             {"spool", rescoring.spool},
             {"spool_day", rescoring.spool_day},
             {"offset", rescoring.offset},
             {"day", rescoring.day},
             {"tokens", rescoring.tokens},
             {"newest_us", rescoring.newest_us},
             {"unanswered", rescoring.unanswered},
             {"unanswered_why", rescoring.unanswered_why}};
  if (rescoring.watch) value["watch"] = rescoring.watch->to_json();
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

schema::Result<GuardRescoring> guard_rescoring_from_json(const std::string& text,
                                                         const schema::Contract& contract, double share,
                                                         std::int64_t armed_us) {
  GuardRescoring rescoring;
  if (text.empty()) {
    if (share > 0) rescoring.watch.emplace(contract, share, armed_us);
    return rescoring;
  }
  try {
    const json value = json::parse(text);
    value.at("why").get_to(rescoring.why);
    value.at("reference").get_to(rescoring.reference);
    value.at("part").get_to(rescoring.part);
    value.at("spool").get_to(rescoring.spool);
    value.at("spool_day").get_to(rescoring.spool_day);
    value.at("offset").get_to(rescoring.offset);
    value.at("day").get_to(rescoring.day);
    value.at("tokens").get_to(rescoring.tokens);
    value.at("newest_us").get_to(rescoring.newest_us);
    value.at("unanswered").get_to(rescoring.unanswered);
    value.at("unanswered_why").get_to(rescoring.unanswered_why);
    if (value.contains("watch")) {
      auto watch = TRY(stages::RescoreWatch::from_json(contract, value.at("watch")));
      rescoring.watch.emplace(std::move(watch));
    }
    return rescoring;
  } catch (const json::exception& error) {
    return schema::fail(schema::ErrorCode::corrupt,
                        std::string("the stored rescoring of a guard is damaged: ") + error.what());
  }
}

std::string kept_answers_of(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  return value.is_object() ? base::text_at(value, "spool") : std::string();
}

}  // namespace driftgate::pipeline
