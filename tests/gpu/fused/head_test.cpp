#include "gpu/fused/head.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <functional>

#include "gpu/drift.hpp"
#include "schema/sha256.hpp"
#include "tests/gpu/fused/hidden_case.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;
using schema::ErrorCode;

namespace {

constexpr std::uint32_t kTokens = 6, kWidth = 4;

HeadDraft small_head() {
  std::vector<double> weights;
  for (std::uint32_t i = 0; i < kTokens * kWidth; ++i) weights.push_back(0.25 * (i % 7) - 0.5);
  return {kTokens, kWidth, store(weights, DRIFTGATE_F32), {}, 1, 0};
}

HiddenDraft small_capture(std::size_t rows = 3) {
  HiddenDraft out;
  out.width = kWidth;
  std::vector<double> hidden;
  for (std::size_t i = 0; i < rows * kWidth; ++i) hidden.push_back(0.5 * static_cast<double>(i % 5) - 1);
  out.hidden = store(hidden, DRIFTGATE_F32);
  out.sequences.assign(rows, 0);
  for (std::size_t i = 0; i < rows; ++i) out.tokens.push_back(static_cast<std::int32_t>(i % kTokens));
  return out;
}

/// A folder with capture.safetensors and head.bin, both valid, whose metadata can be varied.
struct Folder {
  TemporaryFolder root;
  HiddenDraft capture = small_capture();
  Folder() {
    std::filesystem::create_directory(root / "captures");
    small_head().write(head());
    capture.metadata["lm_head"] = "head.bin#lm_head.weight";
  }
  [[nodiscard]] std::filesystem::path path() const { return root / "captures/capture.safetensors"; }
  [[nodiscard]] std::filesystem::path head() const { return root / "captures/head.bin"; }
  [[nodiscard]] schema::Result<Capture> open(const fused::HeadSource& source = {}) const {
    capture.write(path());
    return Capture::open(path(), source);
  }
  void check_refused(ErrorCode code, const std::string& part, const fused::HeadSource& source = {}) const {
    const auto opened = open(source);
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == code);
    CAPTURE(opened.error().describe());
    CHECK(opened.error().describe().find(part) != std::string::npos);
  }
};

std::string digest_of_head() {
  const Stored weight = small_head().weight;
  return schema::sha256_digest(
      {reinterpret_cast<const char*>(weight.bytes.data()) + 1, weight.bytes.size() - 1});
}

}  // namespace

TEST_CASE("a head beside the capture is found and its digest is known") {
  Folder folder;
  folder.capture.metadata["lm_head.digest"] = digest_of_head();
  const auto opened = folder.open();
  REQUIRE(opened);
  CHECK(opened->mode() == CaptureMode::hidden);
  CHECK(opened->vocabulary() == kTokens);
  CHECK(opened->columns() == kWidth);
  CHECK(opened->rows() == 3);
  CHECK(opened->head()->digest() == digest_of_head());
}

TEST_CASE("a head in a folder below that of the capture is found") {
  Folder folder;
  std::filesystem::create_directory(folder.root / "captures/model");
  std::filesystem::rename(folder.head(), folder.root / "captures/model/head.bin");
  folder.capture.metadata["lm_head"] = "model/head.bin#lm_head.weight";
  CHECK(folder.open());
}

TEST_CASE("metadata never leads out of the folder of the capture") {
  Folder folder;
  small_head().write(folder.root / "outside.bin");
  const std::string outside = (folder.root / "outside.bin").string();
  for (const std::string& name :
       {std::string("../outside.bin"), outside, std::string("x/../../outside.bin"), std::string(".."),
        std::string("./head.bin"), std::string("a//head.bin"), std::string("head.bin/")}) {
    CAPTURE(name);
    folder.capture.metadata["lm_head"] = name + "#lm_head.weight";
    folder.check_refused(ErrorCode::invalid_capture, "metadata lm_head");
  }
  std::filesystem::create_symlink("../outside.bin", folder.root / "captures/link.bin");
  std::filesystem::create_symlink("..", folder.root / "captures/up");
  std::filesystem::create_symlink(outside, folder.root / "captures/absolute.bin");
  for (const std::string name : {"link.bin", "up/outside.bin", "absolute.bin"}) {
    CAPTURE(name);
    folder.capture.metadata["lm_head"] = name + "#lm_head.weight";
    folder.check_refused(ErrorCode::invalid_capture, "leads out of the folder");
  }
}

TEST_CASE("invalid metadata of the head is refused with the reason") {
  const auto refused = [](const std::string& key, const std::string& text, ErrorCode code,
                          const std::string& part) {
    Folder folder;
    folder.capture.metadata[key] = text;
    CAPTURE(key);
    CAPTURE(text);
    folder.check_refused(code, part);
  };
  refused("lm_head", "", ErrorCode::invalid_capture, "names no tensor");
  refused("lm_head", "head.bin#", ErrorCode::invalid_capture, "names no tensor");
  refused("lm_head", "#lm_head.weight", ErrorCode::invalid_capture, "names no file");
  refused("lm_head", std::string(2'000, 'a') + "#x", ErrorCode::invalid_capture, "longer than 1,024");
  refused("lm_head", "absent.bin#lm_head.weight", ErrorCode::not_found, "absent.bin");
  refused("lm_head", "head.bin#absent", ErrorCode::invalid_capture, "no tensor 'absent'");
  refused("lm_head", "lm_head.weight", ErrorCode::invalid_argument, "--checkpoint DIR");
  refused("lm_head.bias", "absent", ErrorCode::invalid_capture, "no tensor 'absent' (the bias)");
  refused("lm_head.bias", "lm_head.weight", ErrorCode::invalid_capture, "[6] is needed");
  for (const std::string text : {"", "0", "-1", "nan", "inf", "1x", "1e999", " 1"}) {
    refused("lm_head.scale", text, ErrorCode::invalid_capture, "lm_head.scale");
    refused("lm_head.soft_cap", text, ErrorCode::invalid_capture, "lm_head.soft_cap");
  }
  for (const std::string text : {"", "0", "-1", "7", "1.5", "99999999999"}) {
    refused("lm_head.vocabulary", text, ErrorCode::invalid_capture, "lm_head.vocabulary");
  }
  refused("lm_head.digest", "sha256:00", ErrorCode::invalid_capture, "its digest is sha256:");
}

TEST_CASE("an invalid head file is refused with the rule that it breaks") {
  const auto refused = [](const std::function<void(const Folder&)>& spoil, const std::string& part,
                          ErrorCode code = ErrorCode::invalid_capture) {
    Folder folder;
    spoil(folder);
    folder.check_refused(code, part);
  };
  const auto write = [](const Folder& folder, DType dtype, std::vector<std::uint64_t> shape,
                        std::size_t bytes) {
    const std::vector<std::byte> data(bytes);
    write_tensors(folder.head(), {{"lm_head.weight", dtype, std::move(shape)}}, {data}, {});
  };
  refused([&](const Folder& f) { write(f, DType::i32, {6, 4}, 96); }, "is I32; allowed are");
  refused([&](const Folder& f) { write(f, DType::f64, {6, 4}, 192); }, "is F64; allowed are");
  refused([&](const Folder& f) { write(f, DType::f32, {24}, 96); }, "[V, D] is needed");
  refused([&](const Folder& f) { write(f, DType::f32, {6, 2, 2}, 96); }, "[V, D] is needed");
  refused([&](const Folder& f) { write(f, DType::f32, {0, 4}, 0); }, "[V, D] is needed");
  refused([&](const Folder& f) { write(f, DType::f32, {6, 0}, 0); }, "[V, D] is needed");
  refused(
      [&](const Folder& f) {
        write(f, DType::f32, {4, 6}, 96);
      },
      "4 wide and the rows of its head are 6");
  refused([&](const Folder& f) { write(f, DType::f16, {2, 65'537}, 2 * 2 * 65'537); }, "at most 65536");
  refused([](const Folder& f) { write_bytes(f.head(), "not a safetensors file"); }, "the head ");
  refused(
      [](const Folder& f) {
        std::filesystem::remove(f.head());
        std::filesystem::create_directory(f.head());
      },
      "not a regular file");
}

TEST_CASE("a head file that is truncated anywhere is refused") {
  Folder folder;
  std::ifstream stream(folder.head(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(folder.head(), std::string_view(whole).substr(0, size));
    CAPTURE(size);
    folder.check_refused(ErrorCode::invalid_capture, "the head ");
  }
}

TEST_CASE("the caller's head replaces the one that the metadata names") {
  Folder folder;
  small_head().write(folder.root / "other.bin");
  folder.capture.metadata["lm_head"] = "absent.bin#lm_head.weight";
  CHECK(folder.open({folder.root / "other.bin", {}}));
  folder.capture.metadata["lm_head"] = "lm_head.weight";
  CHECK(folder.open({folder.root / "other.bin", {}}));
  folder.check_refused(ErrorCode::not_found, "nowhere", {folder.root / "nowhere", {}});
}

TEST_CASE("a head is looked for in every file of the checkpoint") {
  Folder folder;
  std::filesystem::create_directory(folder.root / "checkpoint");
  const std::vector<std::byte> data(16);
  write_tensors(folder.root / "checkpoint/model-1.safetensors", {{"other", DType::f32, {4}}}, {data}, {});
  const fused::HeadSource source{{}, folder.root / "checkpoint"};
  folder.capture.metadata["lm_head"] = "lm_head.weight";
  folder.check_refused(ErrorCode::not_found, "has no tensor 'lm_head.weight'", source);
  small_head().write(folder.root / "checkpoint/model-2.safetensors");
  CHECK(folder.open(source));
  folder.capture.metadata.erase("lm_head");  // the usual name
  CHECK(folder.open(source));
  CHECK(folder.open({{}, folder.root / "checkpoint/model-2.safetensors"}));
}

TEST_CASE("padding rows of a head are not tokens") {
  Folder folder;
  folder.capture.metadata["lm_head.vocabulary"] = "5";
  folder.capture.tokens = {0, 4, 2};
  CHECK(folder.open()->vocabulary() == 5);
  folder.capture.tokens = {0, 5, 2};
  folder.check_refused(ErrorCode::invalid_capture, "outside the vocabulary of 5");
}

TEST_CASE("hidden states of a wrong type or shape are refused") {
  const auto refused = [](DType dtype, std::vector<std::uint64_t> shape, const std::string& part) {
    Folder folder;
    std::uint64_t bytes = size_bytes(dtype);
    for (const std::uint64_t extent : shape) bytes *= extent;
    const std::vector<std::byte> data(bytes), ids(12);
    write_tensors(folder.path(), {{"hidden", dtype, std::move(shape)}, {"sequence_ids", DType::i32, {3}}},
                  {data, ids}, folder.capture.metadata);
    const auto opened = Capture::open(folder.path());
    REQUIRE_FALSE(opened);
    CAPTURE(opened.error().describe());
    CHECK(opened.error().describe().find(part) != std::string::npos);
  };
  refused(DType::i64, {3, 4}, "'hidden' is I64");
  refused(DType::f32, {12}, "[N, D]");
  refused(DType::f32, {3, 0}, "[N, D]");
  refused(DType::f32, {3, 5}, "5 wide");
}

TEST_CASE("the files of one capture name one head") {
  Folder folder;
  std::filesystem::create_directory(folder.root / "parts");
  std::filesystem::create_directory(folder.root / "parts/model");
  small_head().write(folder.root / "parts/model/head.bin");
  folder.capture.metadata["lm_head"] = "model/head.bin#lm_head.weight";
  folder.capture.write(folder.root / "parts/1.safetensors");
  folder.capture.write(folder.root / "parts/2.safetensors");
  const auto opened = Capture::open(folder.root / "parts");
  REQUIRE(opened);
  CHECK(opened->rows() == 6);
  folder.capture.metadata["lm_head.scale"] = "2";
  folder.capture.write(folder.root / "parts/2.safetensors");
  const auto refused = Capture::open(folder.root / "parts");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().describe().find("lm_head.scale") != std::string::npos);
}

TEST_CASE("captures whose heads or hidden states do not match are not compared") {
  const auto compared = [](const HeadDraft& head, const HiddenDraft& capture, const std::string& part) {
    Folder folder, other;
    head.write(other.head());
    other.capture = capture;
    other.capture.metadata["lm_head"] = "head.bin#lm_head.weight";
    const auto train = folder.open(), inf = other.open();
    REQUIRE(train);
    REQUIRE(inf);
    const auto table = measure(*train, *inf, nullptr, {});
    REQUIRE_FALSE(table);
    CHECK(table.error().code == ErrorCode::not_comparable);
    CAPTURE(table.error().describe());
    CHECK(table.error().describe().find(part) != std::string::npos);
  };
  HeadDraft taller = small_head();
  taller.vocabulary = 8;
  taller.weight = store(std::vector<double>(8 * kWidth, 0.5), DRIFTGATE_F32);
  compared(taller, small_capture(), "the vocabulary differs: 6 (train) and 8 (inf)");
  HeadDraft wider = small_head();
  wider.width = 5;
  wider.weight = store(std::vector<double>(kTokens * 5, 0.5), DRIFTGATE_F32);
  HiddenDraft wide = small_capture();
  wide.width = 5;
  wide.hidden = store(std::vector<double>(15, 0.5), DRIFTGATE_F32);
  compared(wider, wide, "hidden states are 4 (train) and 5 (inf) wide");
}

TEST_CASE("a temperature under which logits overflow is refused as it is for logits") {
  Folder folder;
  folder.capture.metadata["temperature"] = "1e-310";
  const auto capture = folder.open();
  REQUIRE_FALSE(capture);
  CHECK(capture.error().code == ErrorCode::invalid_capture);
  CHECK(capture.error().message.find("temperature") != std::string::npos);
}

TEST_CASE("an unavailable device for hidden states is an error and is never replaced by the CPU") {
  Folder folder;
  const auto capture = folder.open();
  REQUIRE(capture);
  MeasureOptions options;
  options.device = "cuda:99";
  const auto table = measure(*capture, *capture, nullptr, options);
  REQUIRE_FALSE(table);
  CHECK(table.error().code == ErrorCode::unavailable);
}
