#include "gpu/capture/corpus.hpp"

#include <fmt/format.h>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "schema/json.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

using Json = nlohmann::json;

/// Reads one line and keeps its first fault.
class LineReader {
 public:
  explicit LineReader(const Json& line) : line_(line) {}

  SequenceInfo read() {
    SequenceInfo out;
    const auto sequence = line_.find("sequence");
    if (sequence == line_.end() || !sequence->is_number_integer()) {
      fault_ = "the field 'sequence' (an integer) is needed";
      return out;
    }
    out.sequence = sequence->get<std::int64_t>();
    text("id", out.id);
    text("cluster", out.cluster);
    slices(out);
    number(line_, "reward", "reward", out.reward);
    number(line_, "advantage", "advantage", out.advantage);
    if (const Json* both = object("correct")) {
      boolean(*both, "train", out.correct_train);
      boolean(*both, "inf", out.correct_inf);
    }
    if (const Json* both = object("confidence")) {
      number(*both, "train", "confidence.train", out.confidence_train);
      number(*both, "inf", "confidence.inf", out.confidence_inf);
    }
    return out;
  }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  void complain(std::string_view field, std::string_view needed) {
    if (fault_.empty()) fault_ = fmt::format("the field '{}' must be {}", field, needed);
  }
  const Json* object(const char* field) {
    const auto found = line_.find(field);
    if (found == line_.end() || found->is_null()) return nullptr;
    if (found->is_object()) return &*found;
    complain(field, "an object");
    return nullptr;
  }
  void text(const char* field, std::string& out) {
    const auto found = line_.find(field);
    if (found == line_.end() || found->is_null()) return;
    if (found->is_string()) {
      out = found->get<std::string>();
    } else {
      complain(field, "a string");
    }
  }
  void number(const Json& from, const char* key, const char* field, std::optional<double>& out) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return;
    if (!found->is_number()) return complain(field, "a number");
    const double value = found->get<double>();
    if (!std::isfinite(value)) return complain(field, "a finite number");
    out = value;
  }
  void boolean(const Json& from, const char* key, std::optional<bool>& out) {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return;
    if (!found->is_boolean()) return complain(fmt::format("correct.{}", key), "true or false");
    out = found->get<bool>();
  }
  void slices(SequenceInfo& out) {
    const Json* all = object("slices");
    if (all == nullptr) return;
    if (all->size() > kMaxSliceKeys) return complain("slices", "an object of at most 32 keys");
    for (const auto& [key, value] : all->items()) {
      if (value.is_null()) continue;
      const bool fits = value.is_string() && value.get_ref<const std::string&>().size() <= kMaxSliceTextBytes;
      if (!fits || key.empty() || key.size() > kMaxSliceTextBytes) {
        return complain("slices." + key.substr(0, kMaxSliceTextBytes), "a string of at most 256 bytes");
      }
      out.slices.emplace(key, value.get<std::string>());
    }
  }

  const Json& line_;
  std::string fault_;
};

std::unexpected<schema::Error> at_line(ErrorCode code, std::string_view name, std::size_t line,
                                       std::string_view what) {
  return schema::fail(code, fmt::format("{}:{}: {}", name, line, what));
}

}  // namespace

const SequenceInfo* Corpus::find(std::int64_t sequence) const {
  const auto found = by_sequence.find(sequence);
  return found == by_sequence.end() ? nullptr : &sequences[found->second];
}

Result<Corpus> parse_corpus(std::string_view text, std::string_view name) {
  Corpus corpus;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (line.size() > kMaxCorpusLineBytes) {
      return at_line(ErrorCode::limit_exceeded, name, number, "the line is longer than 1 MiB");
    }
    if (corpus.sequences.size() == kMaxCorpusSequences) {
      return at_line(ErrorCode::limit_exceeded, name, number,
                     "the corpus has more than 10,000,000 sequences");
    }
    auto parsed = schema::parse_json(line, {}, "the line");
    if (!parsed) return schema::wrap(parsed.error(), fmt::format("{}:{}", name, number));
    if (!parsed->is_object())
      return at_line(ErrorCode::invalid_document, name, number, "an object is needed");
    LineReader reader(*parsed);
    SequenceInfo info = reader.read();
    if (!reader.fault().empty()) return at_line(ErrorCode::invalid_document, name, number, reader.fault());
    if (!corpus.by_sequence.emplace(info.sequence, corpus.sequences.size()).second) {
      return at_line(ErrorCode::invalid_document, name, number,
                     fmt::format("sequence {} is already on an earlier line", info.sequence));
    }
    corpus.sequences.push_back(std::move(info));
  }
  return corpus;
}

Result<Corpus> read_corpus(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return schema::fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                        "cannot open the corpus " + path.string() + ": " + std::strerror(errno));
  }
  std::string text;
  std::string block(std::size_t{1} << 20, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block, 0, static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxCorpusBytes) {
      return schema::fail(ErrorCode::limit_exceeded, "the corpus " + path.string() + " is larger than 1 GiB");
    }
  }
  if (file.bad()) return schema::fail(ErrorCode::io, "cannot read the corpus " + path.string());
  return parse_corpus(text, path.string());
}

}  // namespace driftgate::gpu
