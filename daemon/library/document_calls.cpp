#include <memory>
#include <utility>

#include "daemon/drift/contract_file.hpp"
#include "daemon/library/driftgate.h"
#include "daemon/library/guard.hpp"
#include "daemon/library/objects.hpp"

using namespace driftgate;
using namespace driftgate::library;
using schema::Result;

namespace {

/// The name of a text in messages.
Result<std::string> name_of(dg_text name, const char* absent) {
  std::string out = TRY(text_of(name, "the name", kMaxPathBytes));
  return out.empty() ? std::string(absent) : out;
}

Result<std::string_view> bytes_of(dg_text text, const char* what) {
  if (text.size > 0) TRY(needed(text.data, what));
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}

dg_corpus* new_corpus(gpu::Corpus corpus) {
  return new dg_corpus{std::make_shared<const gpu::Corpus>(std::move(corpus))};
}

dg_contract* new_contract(schema::Contract contract) {
  return new dg_contract{std::make_shared<const schema::Contract>(std::move(contract))};
}

}  // namespace

extern "C" {

dg_status dg_corpus_open(dg_text path, dg_corpus** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const std::string name = TRY(path_of(path, "the path of the corpus"));
    auto corpus = TRY(gpu::read_corpus(name));
    *out = new_corpus(std::move(corpus));
    return {};
  });
}

dg_status dg_corpus_parse(dg_text text, dg_text name, dg_corpus** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const std::string shown = TRY(name_of(name, "corpus"));
    const std::string_view bytes = TRY(bytes_of(text, "the text of the corpus"));
    if (bytes.size() > gpu::kMaxCorpusBytes)
      return schema::fail(schema::ErrorCode::limit_exceeded, "the corpus " + shown + " is larger than 1 GiB");
    auto corpus = TRY(gpu::parse_corpus(bytes, shown));
    *out = new_corpus(std::move(corpus));
    return {};
  });
}

void dg_corpus_close(dg_corpus* corpus) {
  delete corpus;
}

dg_status dg_contract_open(dg_text path, dg_contract** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const std::string name = TRY(path_of(path, "the path of the contract"));
    auto contract = TRY(drift::read_contract_file(name));
    *out = new_contract(std::move(contract));
    return {};
  });
}

dg_status dg_contract_parse(dg_text text, dg_text name, dg_contract** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const std::string shown = TRY(name_of(name, "contract"));
    const std::string_view bytes = TRY(bytes_of(text, "the text of the contract"));
    auto contract = TRY(drift::parse_contract_text(bytes, shown));
    *out = new_contract(std::move(contract));
    return {};
  });
}

dg_text dg_contract_name(const dg_contract* contract) {
  return text_view(contract->contract->name);
}

dg_text dg_contract_digest(const dg_contract* contract) {
  return text_view(contract->contract->digest);
}

void dg_contract_close(dg_contract* contract) {
  delete contract;
}

}  // extern "C"
