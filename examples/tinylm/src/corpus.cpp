#include "examples/tinylm/src/corpus.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/tinylm/src/model.hpp"

namespace tinylm {
namespace {

using nlohmann::json;

Result<Sequence> parse_row(const json& row, std::size_t max_tokens) {
  Sequence sequence;
  sequence.number = row.at("sequence").get<std::int32_t>();
  sequence.id = row.value("id", "");
  if (row.contains("slices")) sequence.slices = row.at("slices").get<std::map<std::string, std::string>>();
  sequence.prompt = row.value("prompt", "");
  if (row.contains("token_ids"))
    sequence.tokens = row.at("token_ids").get<std::vector<std::int32_t>>();
  else
    sequence.tokens =
        tokens_of_text(row.contains("text") ? row.at("text").get<std::string>() : sequence.prompt);
  sequence.score_from = row.value("score_from", std::size_t{0});
  for (const std::int32_t token : sequence.tokens)
    if (token < 0 || token > kBos) return fail("token " + std::to_string(token) + " is outside 0 to 256");
  if (sequence.tokens.size() < 2 || sequence.tokens.size() > max_tokens)
    return fail("a sequence needs 2 to " + std::to_string(max_tokens) + " tokens, this one has " +
                std::to_string(sequence.tokens.size()));
  if (sequence.score_from >= sequence.tokens.size()) return fail("score_from lies behind the last token");
  return sequence;
}

}  // namespace

std::vector<std::int32_t> tokens_of_text(const std::string& text) {
  std::vector<std::int32_t> tokens = {kBos};
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

Result<Corpus> read_corpus(const std::string& path, std::size_t max_tokens) {
  auto digest = file_sha256(path);
  if (!digest) return std::unexpected(digest.error());
  Corpus corpus{{}, "sha256:" + *digest, ""};
  std::ifstream file(path);
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const std::string where = path + ", line " + std::to_string(number) + ": ";
    try {
      const json row = json::parse(line);
      auto sequence = parse_row(row, max_tokens);
      if (!sequence) return fail(where + sequence.error().message);
      const std::string source = row.value("token_source", "corpus");
      if (!corpus.sequences.empty() && source != corpus.token_source)
        return fail(where + "token_source differs from the lines above: one file has one source");
      corpus.token_source = source;
      corpus.sequences.push_back(std::move(*sequence));
    } catch (const json::exception& error) {
      return fail(where + error.what());
    }
  }
  if (corpus.sequences.empty()) return fail(path + " holds no sequence");
  return corpus;
}

}  // namespace tinylm
