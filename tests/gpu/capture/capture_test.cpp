#include "gpu/capture/capture.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "gpu/capture/capture_head.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

CaptureDraft draft_of_three() {
  CaptureDraft draft;
  draft.add_row(0, 5, 1, {1, 2, 3, 4});
  draft.add_row(0, 6, 2, {4, 3, 2, 1});
  draft.add_row(1, 5, 3, {0, 0, 0, 1});
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

TEST_CASE("a capture file gives its rows, tokens and identity") {
  TemporaryFolder folder;
  draft_of_three().write(folder / "a.safetensors");
  const Capture capture = must_open(folder / "a.safetensors");
  CHECK(capture.rows() == 3);
  CHECK(capture.vocabulary() == 4);
  CHECK(capture.identity().kernel == "k");
  CHECK(capture.identity().token_source == "corpus");
  CHECK(capture.identity().sampling_filter == "none");
  CHECK(capture.token_ids()[2] == 3);
  CHECK(capture.positions()[1] == 6);
}

TEST_CASE("the head of a capture says what the whole says") {
  TemporaryFolder folder;
  auto draft = draft_of_three();
  draft.metadata["checkpoint.digest"] = "sha256:c";
  draft.metadata["corpus.digest"] = "sha256:d";
  draft.write(folder / "a.safetensors");
  const Capture capture = must_open(folder / "a.safetensors");
  const auto bytes = capture.segments().front().file.file_bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto head = parse_capture_head(text, text.size(), "a");
  REQUIRE_MESSAGE(head.has_value(), (head ? "" : head.error().describe()));
  CHECK(head->identity.kernel == capture.identity().kernel);
  CHECK(head->identity.checkpoint_digest == "sha256:c");
  CHECK(head->identity.corpus_digest == "sha256:d");
  CHECK(head->vocabulary == capture.vocabulary());
  const auto cut = parse_capture_head(text, text.size() - 1, "a");
  REQUIRE_FALSE(cut.has_value());
  CHECK(cut.error().message.starts_with("a: rule \""));
}

TEST_CASE("a directory is read in name order and files that do not belong together are refused") {
  TemporaryFolder folder;
  CaptureDraft second = draft_of_three();
  second.sequences = {2, 2, 3};
  second.write(folder / "part-2.safetensors");
  draft_of_three().write(folder / "part-1.safetensors");
  write_bytes(folder / "notes.txt", "not a capture");
  const Capture capture = must_open(folder.path());
  CHECK(capture.rows() == 6);
  CHECK(capture.sequence_ids()[0] == 0);
  CHECK(capture.sequence_ids()[5] == 3);
  CHECK(capture.segments()[1].first_row == 3);

  second.metadata["kernel"] = "other";
  second.write(folder / "part-2.safetensors");
  const auto mixed = Capture::open(folder.path());
  REQUIRE_FALSE(mixed);
  CHECK(contains(mixed.error().message, "part-2.safetensors"));
  CHECK(contains(mixed.error().message, "kernel differs"));
  second.metadata["kernel"] = "k";
  second.tokens.clear();
  second.write(folder / "part-2.safetensors");
  CHECK_FALSE(Capture::open(folder.path()));
}

TEST_CASE("positions that are absent count up within each sequence") {
  TemporaryFolder folder;
  CaptureDraft draft = draft_of_three();
  draft.positions.clear();
  draft.sequences = {4, 9, 4};
  draft.write(folder / "a.safetensors");
  const Capture capture = must_open(folder / "a.safetensors");
  CHECK(capture.positions()[0] == 0);
  CHECK(capture.positions()[1] == 0);
  CHECK(capture.positions()[2] == 1);
}

TEST_CASE("captures of hidden states whose head is not given say how to give it") {
  TemporaryFolder folder;
  write_bytes(folder / "m.safetensors",
              with_header(R"({"hidden":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}})", 0));
  const auto capture = Capture::open(folder / "m.safetensors");
  REQUIRE_FALSE(capture);
  CHECK(capture.error().code == schema::ErrorCode::invalid_argument);
  CHECK(contains(capture.error().message, "--checkpoint DIR"));
}

TEST_CASE("invalid captures are refused with the name of the tensor") {
  TemporaryFolder folder;
  const auto refused = [&](const std::function<void(CaptureDraft&)>& change, std::string_view part) {
    CaptureDraft draft = draft_of_three();
    change(draft);
    draft.write(folder / "bad.safetensors");
    const auto capture = Capture::open(folder / "bad.safetensors");
    REQUIRE_FALSE(capture);
    CAPTURE(capture.error().describe());
    CHECK(contains(capture.error().describe(), part));
  };
  refused([](CaptureDraft& d) { d.tokens[1] = 4; }, "token_ids of row 1 is 4");
  refused([](CaptureDraft& d) { d.tokens[0] = -1; }, "token_ids of row 0 is -1");
  refused([](CaptureDraft& d) { d.metadata["temperature"] = "0"; }, "temperature");
  refused([](CaptureDraft& d) { d.metadata["temperature"] = "1.0x"; }, "temperature");
  refused([](CaptureDraft& d) { d.metadata["temperature"] = "nan"; }, "temperature");
  refused([](CaptureDraft& d) { d.metadata["temperature"] = "1e-30"; }, "of at least 1e-6");
  refused([](CaptureDraft& d) { d.metadata["capture.version"] = "2"; }, "version '2'");
  refused([](CaptureDraft& d) { d = CaptureDraft{}; }, "has no rows");
  const std::pair<const char*, const char*> headers[] = {
      {R"({})", "no tensor 'logits'"},
      {R"({"logits":{"dtype":"F64","shape":[0,4],"data_offsets":[0,0]}})", "F32, F16 and BF16"},
      {R"({"logits":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", "[N, V]"},
      {R"({"logits":{"dtype":"F32","shape":[5,0],"data_offsets":[0,0]}})", "[N, V]"},
      {R"({"logits":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}})", "sequence_ids"},
      {R"({"logits":{"dtype":"F32","shape":[0,99000000],"data_offsets":[0,0]}})", "vocabulary"},
      {R"({"logits":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},"sequence_ids":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
       "I32 or I64"},
      {R"({"logits":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},"sequence_ids":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})",
       "one for each row"}};
  for (const auto& [header, part] : headers) {
    const std::size_t data = contains(header, "[0,4]}}") && contains(header, "\"shape\":[1]") ? 4 : 0;
    write_bytes(folder / "h.safetensors", with_header(header, data));
    const auto capture = Capture::open(folder / "h.safetensors");
    REQUIRE_FALSE(capture);
    CAPTURE(capture.error().describe());
    CHECK(contains(capture.error().describe(), part));
  }
}

TEST_CASE("captures are comparable only when what must agree agrees, and the first difference is named") {
  TemporaryFolder folder;
  draft_of_three().write(folder / "a.safetensors");
  const Capture train = must_open(folder / "a.safetensors");
  const auto difference = [&](const std::function<void(CaptureDraft&)>& change) -> std::string {
    CaptureDraft draft = draft_of_three();
    change(draft);
    draft.write(folder / "b.safetensors");
    const Capture inf = must_open(folder / "b.safetensors");
    const auto comparable = check_comparable(train, inf);
    if (comparable) return "comparable";
    CHECK(comparable.error().code == schema::ErrorCode::not_comparable);
    return comparable.error().message;
  };
  CHECK(difference([](CaptureDraft& d) { d.metadata["kernel"] = "other"; }) == "comparable");
  CHECK(difference([](CaptureDraft& d) { d.metadata["token_source"] = "corpus"; }) == "comparable");
  CHECK(contains(difference([](CaptureDraft& d) { d.metadata["token_source"] = "k"; }), "token_source"));
  CHECK(contains(difference([](CaptureDraft& d) { d.metadata["corpus.digest"] = "x"; }), "corpus.digest"));
  CHECK(contains(difference([](CaptureDraft& d) { d.metadata["checkpoint.digest"] = "x"; }),
                 "checkpoint.digest"));
  CHECK(contains(difference([](CaptureDraft& d) { d.metadata["temperature"] = "0.7"; }), "temperature"));
  CHECK(contains(difference([](CaptureDraft& d) { d.metadata["sampling_filter"] = "top_k=5"; }),
                 "sampling_filter"));
  CHECK(
      contains(difference([](CaptureDraft& d) { d.tokens[2] = 0; }), "token_ids differs first in row 2: 3"));
  CHECK(contains(difference([](CaptureDraft& d) { d.tokens.clear(); }),
                 "only the capture of train has token_ids"));
  CHECK(contains(difference([](CaptureDraft& d) { d.sequences[1] = 8; }),
                 "sequence_ids differs first in row 1: 0"));
  CHECK(contains(difference([](CaptureDraft& d) { d.positions[0] = 8; }),
                 "positions differs first in row 0: 5"));
  CHECK(contains(difference([](CaptureDraft& d) {
                   d.add_row(1, 6, 0, {1, 1, 1, 1});
                 }),
                 "number of rows differs: 3"));
  CHECK(contains(difference([](CaptureDraft& d) {
                   d.vocabulary = 5;
                   d.logits.assign(15, 0.0F);
                 }),
                 "vocabulary differs: 4"));
}

TEST_CASE("a file without rows does not restrict the files after it") {
  TemporaryFolder folder;
  CaptureDraft none, rows = draft_of_three();
  none.write(folder / "part-0.safetensors");
  rows.positions.clear();
  rows.write(folder / "part-1.safetensors");
  const Capture capture = must_open(folder.path());
  CHECK(capture.rows() == 3);
  CHECK(capture.positions()[1] == 1);
  CHECK(capture.token_ids()[2] == 3);
}
