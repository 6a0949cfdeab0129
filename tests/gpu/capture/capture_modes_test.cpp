#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "gpu/capture/capture.hpp"
#include "tests/gpu/partial_draft.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

PartialDraft lists_of_three() {
  PartialDraft draft;
  draft.add_row(0, 5, 1, -0.5F, {{1, -0.5F}, {2, -1.5F}, {7, -3.0F}});
  draft.add_row(0, 6, 2, -1.5F, {{4, -0.25F}, {2, -1.5F}});
  draft.add_row(1, 5, 3, -4.0F, {{9, -0.125F}, {1, -2.5F}, {5, -3.0F}});
  return draft;
}

PartialDraft realised_of_three() {
  PartialDraft draft = lists_of_three();
  draft.columns = 0;
  return draft;
}

Capture must_open(const std::filesystem::path& path) {
  auto capture = Capture::open(path);
  if (!capture) FAIL(capture.error().describe());
  return std::move(*capture);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a capture of lists says its mode and gives each row's known tokens") {
  TemporaryFolder folder;
  PartialDraft draft = lists_of_three();
  draft.lists[2] = {{9, -0.125F}, {1, -kInfinity}, {5, -9999.0F}};
  draft.write(folder / "a.safetensors");
  Capture capture = must_open(folder / "a.safetensors");
  CHECK(capture.mode() == CaptureMode::topk);
  CHECK(capture.columns() == 3);
  CHECK(capture.vocabulary() == 100);
  CHECK(capture.logprobs()[2] == -4.0F);
  std::vector<ListedToken> list;
  capture.list(1, list);
  REQUIRE(list.size() == 2);
  CHECK(list[1].id == 2);
  CHECK(list[1].logprob == -1.5F);
  capture.list(2, list);
  CHECK(list.size() == 1);

  draft.metadata["support"] = "matched";
  draft.write(folder / "a.safetensors");
  CHECK(must_open(folder / "a.safetensors").mode() == CaptureMode::matched);
  realised_of_three().write(folder / "a.safetensors");
  capture = must_open(folder / "a.safetensors");
  CHECK(capture.mode() == CaptureMode::realised);
  CHECK(capture.columns() == 0);
}

TEST_CASE("NaN and +Infinity in a list are kept as faults and not taken for unknown") {
  TemporaryFolder folder;
  PartialDraft draft = lists_of_three();
  draft.lists[0] = {{1, NAN}, {2, kInfinity}, {7, -3.0F}};
  draft.write(folder / "a.safetensors");
  std::vector<ListedToken> list;
  must_open(folder / "a.safetensors").list(0, list);
  REQUIRE(list.size() == 3);
  CHECK(std::isnan(list[0].logprob));
  CHECK(std::isnan(list[1].logprob));
}

TEST_CASE("each rule of a partial capture that is broken is named") {
  TemporaryFolder folder;
  const auto refused = [&](PartialDraft draft, const std::function<void(PartialDraft&)>& change,
                           std::string_view part) {
    change(draft);
    draft.write(folder / "bad.safetensors");
    const auto capture = Capture::open(folder / "bad.safetensors");
    CAPTURE(part);
    REQUIRE_FALSE(capture);
    CAPTURE(capture.error().describe());
    CHECK(contains(capture.error().describe(), part));
  };
  const PartialDraft lists = lists_of_three(), realised = realised_of_three();
  refused(
      lists, [](PartialDraft& d) { d.lists[1][0].first = 100; }, "topk_ids of row 1 holds 100");
  refused(
      lists, [](PartialDraft& d) { d.lists[1][0].first = -1; }, "topk_ids of row 1 holds -1");
  refused(
      lists, [](PartialDraft& d) { d.lists[2][1].first = 9; }, "topk_ids of row 2 holds token 9 twice");
  refused(
      lists, [](PartialDraft& d) { d.tokens[1] = 100; }, "token_ids of row 1 is 100");
  refused(
      lists, [](PartialDraft& d) { d.metadata["vocabulary"] = "many"; }, "metadata vocabulary 'many'");
  refused(
      lists, [](PartialDraft& d) { d.metadata["vocabulary"] = "0"; }, "metadata vocabulary '0'");
  refused(
      lists, [](PartialDraft& d) { d.metadata["support"] = "some"; }, "metadata support 'some'");
  refused(
      lists, [](PartialDraft& d) { d.tokens.clear(); }, "no tensor 'token_ids'");
  refused(
      realised, [](PartialDraft& d) { d.tokens.clear(); }, "no tensor 'token_ids'");
  refused(
      realised, [](PartialDraft& d) { d.tokens[0] = -2; }, "token_ids of row 0 is -2");
}

TEST_CASE("each rule of a partial capture's header that is broken is named") {
  TemporaryFolder folder;
  const std::pair<const char*, const char*> headers[] = {
      {R"({"topk_ids":{"dtype":"I32","shape":[0,4],"data_offsets":[0,0]}})", "no tensor 'topk_logprobs'"},
      {R"({"topk_logprobs":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}})", "no tensor 'topk_ids'"},
      {R"({"topk_ids":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},"topk_logprobs":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}})",
       "'topk_ids' is F32"},
      {R"({"topk_ids":{"dtype":"I32","shape":[0,4],"data_offsets":[0,0]},"topk_logprobs":{"dtype":"F16","shape":[0,4],"data_offsets":[0,0]}})",
       "'topk_logprobs' is F16"},
      {R"({"topk_ids":{"dtype":"I32","shape":[0,4],"data_offsets":[0,0]},"topk_logprobs":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})",
       "'topk_logprobs' has the shape [0, 5]"},
      {R"({"topk_ids":{"dtype":"I32","shape":[0],"data_offsets":[0,0]},"topk_logprobs":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
       "'topk_ids' has the shape [0]"},
      {R"({"topk_ids":{"dtype":"I32","shape":[9,0],"data_offsets":[0,0]},"topk_logprobs":{"dtype":"F32","shape":[9,0],"data_offsets":[0,0]}})",
       "K from 1 to"},
      {R"({"topk_ids":{"dtype":"I32","shape":[0,99999],"data_offsets":[0,0]},"topk_logprobs":{"dtype":"F32","shape":[0,99999],"data_offsets":[0,0]}})",
       "K from 1 to"},
      {R"({"logprobs":{"dtype":"F32","shape":[0,2],"data_offsets":[0,0]}})", "'logprobs' has the shape"},
      {R"({"logprobs":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", "no tensor 'token_ids'"},
      {R"({"logprobs":{"dtype":"F16","shape":[0],"data_offsets":[0,0]},"token_ids":{"dtype":"I32","shape":[0],"data_offsets":[0,0]},"sequence_ids":{"dtype":"I32","shape":[0],"data_offsets":[0,0]}})",
       "'logprobs' is F16"}};
  for (const auto& [header, part] : headers) {
    write_bytes(folder / "h.safetensors", with_header(header, 0));
    const auto capture = Capture::open(folder / "h.safetensors");
    CAPTURE(part);
    REQUIRE_FALSE(capture);
    CAPTURE(capture.error().describe());
    CHECK(contains(capture.error().describe(), part));
  }
}

TEST_CASE("every truncation of a capture in every mode is refused by the name of a rule") {
  TemporaryFolder folder;
  std::vector<std::filesystem::path> files;
  lists_of_three().write(files.emplace_back(folder / "lists.safetensors"));
  realised_of_three().write(files.emplace_back(folder / "realised.safetensors"));
  CaptureDraft full;
  full.add_row(0, 5, 1, {1, 2, 3, 4});
  full.write(files.emplace_back(folder / "full.safetensors"));
  PartialDraft matched = lists_of_three();
  matched.metadata["support"] = "matched";
  matched.write(files.emplace_back(folder / "matched.safetensors"));
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      write_bytes(folder / "cut.safetensors", std::string_view(bytes).substr(0, size));
      const auto capture = Capture::open(folder / "cut.safetensors");
      CAPTURE(file);
      CAPTURE(size);
      REQUIRE_FALSE(capture);
      CHECK(capture.error().code == schema::ErrorCode::invalid_capture);
      CHECK(contains(capture.error().describe(), "rule \""));
    }
  }
}

TEST_CASE("partial captures are comparable only in the same mode, and matched lists with the same ids") {
  TemporaryFolder folder;
  const auto difference = [&](PartialDraft a, PartialDraft b) -> std::string {
    a.write(folder / "a.safetensors");
    b.write(folder / "b.safetensors");
    const auto ok =
        check_comparable(must_open(folder / "a.safetensors"), must_open(folder / "b.safetensors"));
    return ok ? "comparable" : ok.error().message;
  };
  const PartialDraft lists = lists_of_three();
  PartialDraft matched = lists;
  matched.metadata["support"] = "matched";
  CHECK(difference(lists, lists) == "comparable");
  CHECK(
      contains(difference(lists, realised_of_three()), "the mode differs: topk (train) and realised (inf)"));
  CHECK(contains(difference(lists, matched), "the mode differs: topk (train) and matched (inf)"));
  PartialDraft other = matched;
  std::swap(other.lists[0][0], other.lists[0][2]);
  CHECK(difference(matched, other) == "comparable");
  other.lists[1][0].first = 5;
  CHECK(contains(difference(matched, other), "ids of matched lists differ first in row 1"));
  other = lists;
  other.metadata["vocabulary"] = "101";
  CHECK(contains(difference(lists, other), "vocabulary differs: 100 (train) and 101 (inf)"));
  other.metadata.erase("vocabulary");
  CHECK(contains(difference(lists, other), "vocabulary differs: 100 (train) and not stated (inf)"));
  other = lists;
  other.tokens[1] = 9;
  CHECK(contains(difference(lists, other), "token_ids differs first in row 1: 2 (train) and 9 (inf)"));
}
