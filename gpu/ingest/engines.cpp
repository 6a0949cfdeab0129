#include <nlohmann/json.hpp>

#include "gpu/ingest/response_formats.hpp"
#include "schema/json.hpp"

// vLLM: prompt_logprobs[] (of the response or of each choice), null for the first token, else an object from
// token id to {logprob, rank}; it contains the target token whatever its rank. SGLang:
// meta_info.{input,output}_token_logprobs[] of [logprob, id, text] and {input,output}_top_logprobs[] of lists
// of the same; *_token_ids_logprobs for ids that the request named. llama.cpp's server:
// completion_probabilities[].{id, logprob, top_logprobs[].{id, logprob}}.

namespace driftgate::gpu::ingest {

using schema::Result;

namespace {

/// Reads the tokens of one position of the prompt_logprobs of vLLM. A target token whose rank is beyond that
/// of the others was appended and does not count as listed.
Result<void> read_vllm_row(const Place& entries, RowCollector& collector, EngineRow row) {
  if (!entries.value.is_object())
    return collector.fail(entries, "is not an object from token ids to log-probabilities");
  for (const auto& [key, value] : entries.value.items()) {
    const Place entry{value, entries.pointer + "/" + schema::pointer_token(key)};
    const auto id = id_in(key);
    if (!id) return collector.fail(entry, "is not a token id from 0 to 2147483647");
    if (!entry.value.is_object() && !entry.is_null())
      return collector.fail(entry, "is not an object with 'logprob', as vLLM's server returns it");
    const auto logprob = entry.find("logprob");
    if (!logprob) continue;
    if (*id != row.token) {
      TRY(collector.list(*id, *logprob, row));
      continue;
    }
    const auto known = TRY(collector.logprob(*logprob));
    row.logprob = known;
    const auto rank = entry.find("rank");
    const bool ranked = rank && rank->value.is_number_unsigned();
    const std::size_t others = entries.size() - 1;
    if (ranked && rank->value.get<std::uint64_t>() <= others + 1) {
      TRY(collector.list(*id, *logprob, row));
    }
  }
  return collector.keep(std::move(row));
}

Result<void> read_vllm_prompt(const Place& prompt, const std::optional<Place>& ids, RowCollector& collector) {
  if (!prompt.is_array()) return collector.fail(prompt, "is not a list");
  if (!ids || !ids->is_array() || ids->size() != prompt.size()) {
    return collector.fail(
        prompt,
        "needs 'prompt_token_ids' of the same length beside it to say which token follows in the sequence: "
        "request them with return_token_ids");
  }
  const std::int64_t sequence = collector.next_sequence();
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt.at(i).is_null()) continue;
    const auto token = TRY(collector.id(ids->at(i)));
    EngineRow row{sequence, static_cast<std::int64_t>(i), token, {}, {}};
    TRY(read_vllm_row(prompt.at(i), collector, std::move(row)));
  }
  return {};
}

/// [logprob, id, text] of SGLang.
struct Triple {
  Place logprob, id;
};
Result<Triple> triple(const Place& place, const RowCollector& collector) {
  if (!place.is_array() || place.size() < 2) return collector.fail(place, "is not [logprob, id, text]");
  return Triple{place.at(0), place.at(1)};
}

Result<void> read_sglang_row(const Place& token, const std::optional<Place>& list, RowCollector& collector,
                             EngineRow row) {
  const auto own = TRY(triple(token, collector));
  const auto id = TRY(collector.id(own.id));
  row.token = id;
  const auto known = TRY(collector.logprob(own.logprob));
  row.logprob = known;
  if (list && !list->is_null()) {
    if (!list->is_array()) return collector.fail(*list, "is not a list");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto entry = TRY(triple(list->at(i), collector));
      const auto listed = TRY(collector.id(entry.id));
      TRY(collector.list(listed, entry.logprob, row));
    }
  }
  return collector.keep(std::move(row));
}

struct SglangNames {
  const char* tokens;
  const char* lists;
};

Result<std::size_t> read_sglang_part(const Place& meta, const SglangNames& names, std::int64_t sequence,
                                     std::size_t position, RowCollector& collector) {
  const auto tokens = meta.find(names.tokens);
  if (!tokens) return position;
  if (!tokens->is_array()) return collector.fail(*tokens, "is not a list");
  const auto lists = meta.find(names.lists);
  if (lists && (!lists->is_array() || lists->size() != tokens->size())) {
    return collector.fail(*lists, std::string("is not as long as '") + names.tokens + "'");
  }
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    EngineRow row{sequence, static_cast<std::int64_t>(position + i), 0, {}, {}};
    const auto list = lists ? std::optional<Place>(lists->at(i)) : std::nullopt;
    if (auto ok = read_sglang_row(tokens->at(i), list, collector, std::move(row)); !ok) {
      return std::unexpected(ok.error());
    }
  }
  return position + tokens->size();
}

}  // namespace

Result<void> read_vllm(const Place& response, RowCollector& collector) {
  const auto ids = response.find("prompt_token_ids");
  if (const auto prompt = response.find("prompt_logprobs")) return read_vllm_prompt(*prompt, ids, collector);
  const auto choices = response.find("choices");
  bool any = false;
  for (std::size_t i = 0; choices && choices->is_array() && i < choices->size(); ++i) {
    const Place choice = choices->at(i);
    const auto prompt = choice.find("prompt_logprobs");
    if (!prompt) continue;
    any = true;
    const auto own = choice.find("prompt_token_ids");
    TRY(read_vllm_prompt(*prompt, own ? own : ids, collector));
  }
  if (any) return {};
  return collector.fail(response, "has no 'prompt_logprobs': ask vLLM for prompt_logprobs in the request");
}

Result<void> read_sglang(const Place& response, RowCollector& collector) {
  const auto meta = response.find("meta_info");
  if (!meta) return collector.fail(response, "has no 'meta_info'");
  const bool matched = collector.options().matched;
  if (!meta->find("input_token_logprobs") && !meta->find("output_token_logprobs")) {
    return collector.fail(*meta,
                          "has no 'input_token_logprobs' nor 'output_token_logprobs': ask SGLang for "
                          "return_logprob and top_logprobs_num");
  }
  const SglangNames input{"input_token_logprobs",
                          matched ? "input_token_ids_logprobs" : "input_top_logprobs"};
  const SglangNames output{"output_token_logprobs",
                           matched ? "output_token_ids_logprobs" : "output_top_logprobs"};
  if (matched && !meta->find(input.lists) && !meta->find(output.lists)) {
    return collector.fail(*meta, std::string("has no '") + input.lists + "' nor '" + output.lists +
                                     "': ask SGLang for token_ids_logprob, or leave --matched out");
  }
  const std::int64_t sequence = collector.next_sequence();
  const auto end = TRY(read_sglang_part(*meta, input, sequence, 0, collector));
  TRY(read_sglang_part(*meta, output, sequence, end, collector));
  return {};
}

Result<void> read_llamacpp(const Place& response, RowCollector& collector) {
  const auto list = response.find("completion_probabilities");
  if (!list || !list->is_array()) {
    return collector.fail(response, "has no list 'completion_probabilities': ask llama.cpp for n_probs");
  }
  const std::int64_t sequence = collector.next_sequence();
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Place item = list->at(i);
    if (item.find("probs") || item.find("prob") || item.find("top_probs")) {
      return collector.fail(item,
                            "gives probabilities after sampling: ask for raw log-probabilities "
                            "(post_sampling_probs: false, a llama.cpp that answers with 'logprob')");
    }
    const auto token = item.find("id"), value = item.find("logprob");
    if (!token || !value) return collector.fail(item, "needs 'id' and 'logprob'");
    EngineRow row{sequence, static_cast<std::int64_t>(i), 0, {}, {}};
    const auto id = collector.id(*token);
    if (!id) return std::unexpected(id.error());
    row.token = *id;
    const auto known = TRY(collector.logprob(*value));
    row.logprob = known;
    const auto tops = item.find("top_logprobs");
    for (std::size_t k = 0; tops && tops->is_array() && k < tops->size(); ++k) {
      const Place top = tops->at(k);
      const auto top_id = top.find("id"), top_value = top.find("logprob");
      if (!top_id || !top_value) return collector.fail(top, "needs 'id' and 'logprob'");
      const auto listed = TRY(collector.id(*top_id));
      TRY(collector.list(listed, *top_value, row));
    }
    TRY(collector.keep(std::move(row)));
  }
  return {};
}

}  // namespace driftgate::gpu::ingest
