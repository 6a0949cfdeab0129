#include "gpu/capture/safetensors.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

std::string fault(const std::string& file) {
  const auto header = parse_safetensors_header(file, file.size());
  if (header) return "accepted";
  CHECK(header.error().code == schema::ErrorCode::invalid_capture);
  return header.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("each broken rule of a safetensors file is refused by its name and the tensor's") {
  struct Broken {
    const char* header;
    std::size_t data;
    const char* rule;
    const char* tensor;
  };
  const Broken cases[] = {
      {R"( {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "header starts with {", ""},
      {R"([])", 0, "header starts with {", ""},
      {R"({"a":)", 0, "header is JSON", ""},
      {"{\"a\xff\":1}", 0, "header is JSON", ""},
      {R"({} x)", 0, "header is JSON", ""},
      {R"({"a":1})", 0, "header structure", "'a'"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "header structure", "'a'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1, "header structure", "'a'"},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "header structure", "'a'"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "header structure", "'a'"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "header structure", "'a'"},
      {R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1, "header structure", "'a'"},
      {R"({"__metadata__":{"k":1}})", 0, "header structure", "'k'"},
      {R"({"__metadata__":{"k":{}}})", 0, "header structure", "'k'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "no duplicate keys", "'a'"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "no duplicate keys",
       "tensor 'a'"},
      {R"({"__metadata__":{"k":"1","k":"2"}})", 0, "no duplicate keys", "'k'"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "dtype known", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "shape", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "shape product without overflow", "'a'"},
      {R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0,
       "shape product without overflow", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "shape equals byte range", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "byte range", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4, "byte range", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "byte range", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "no holes", "'a'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "no holes", "'b'"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "no overlap", "'b'"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4, "inside the file", "'a'"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5, "no trailing bytes", "'a'"},
      {R"({})", 1, "no trailing bytes", ""},
  };
  for (const Broken& broken : cases) {
    const std::string message = fault(with_header(broken.header, broken.data));
    CAPTURE(broken.header);
    CAPTURE(message);
    CHECK(contains(message, std::string("rule \"") + broken.rule + "\""));
    CHECK(contains(message, broken.tensor));
  }
}

TEST_CASE("a header larger than 16 MB or than its file is refused") {
  std::string file(8, '\0');
  file[3] = '\x01';  // 16,777,216
  CHECK(contains(fault(file), "rule \"header size\""));
  file.assign(8, '\xff');
  CHECK(contains(fault(file), "rule \"header size\""));
  file.assign(8, '\0');
  file[0] = 3;
  CHECK(contains(fault(file + "{}"), "rule \"header inside the file\""));
}

TEST_CASE("more than 200,000 tensors are refused") {
  std::string header = "{";
  for (std::size_t i = 0; i <= kMaxSafetensorsTensors; ++i) {
    header +=
        (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  CHECK(contains(fault(with_header(header + "}", 0)), "rule \"tensor count\""));
}

TEST_CASE("tensors may be listed in any order and be empty") {
  const std::string file = with_header(
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"a":{"dtype":"I16","shape":[],"data_offsets":[0,2]},)"
      R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[3,3]}}   )",
      3);
  const auto header = parse_safetensors_header(file, file.size());
  REQUIRE(header);
  REQUIRE(header->tensors.size() == 3);
  CHECK(header->tensors[0].name == "a");
  CHECK(header->tensors[1].name == "b");
  CHECK(header->tensors[2].name == "e");
}

TEST_CASE("every truncation and every extension of a file is refused") {
  TemporaryFolder folder;
  CaptureDraft draft;
  draft.add_row(0, 0, 1, {1, 2, 3, 4});
  draft.add_row(0, 1, 2, {4, 3, 2, 1});
  draft.write(folder / "whole.safetensors");
  const auto whole = SafetensorsFile::open(folder / "whole.safetensors");
  REQUIRE(whole);
  const auto all = whole->file_bytes();
  const std::string bytes(reinterpret_cast<const char*>(all.data()), all.size());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(folder / "cut.safetensors", bytes.substr(0, size));
    const auto cut = SafetensorsFile::open(folder / "cut.safetensors");
    CAPTURE(size);
    REQUIRE_FALSE(cut);
    CHECK(contains(cut.error().describe(), "rule \""));
    CHECK(contains(cut.error().describe(), "cut.safetensors"));
  }
  write_bytes(folder / "long.safetensors", bytes + "x");
  CHECK_FALSE(SafetensorsFile::open(folder / "long.safetensors"));
}

TEST_CASE("every byte of a header turned into another never crashes the reader") {
  const std::string file =
      with_header(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})", 8);
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const char byte : {'\0', '"', '{', '}', '[', ',', '9', '\\', '\xff'}) {
      std::string changed = file;
      changed[at] = byte;
      const auto header = parse_safetensors_header(changed, changed.size());
      if (!header) CHECK(header.error().code == schema::ErrorCode::invalid_capture);
    }
  }
}

TEST_CASE("what the writer wrote is what the reader reads") {
  TemporaryFolder folder;
  const std::vector<double> numbers = {1.5, -2.5, 3.25};
  const std::vector<std::int64_t> ids = {7, 8, 9};
  auto writer = SafetensorsWriter::create(folder / "f.safetensors",
                                          {{"numbers", DType::f64, {3}}, {"ids", DType::i64, {3, 1}}},
                                          {{"who", "\"me\""}});
  REQUIRE(writer);
  REQUIRE(writer->write(1, 0, std::as_bytes(std::span(ids))));
  REQUIRE(writer->write(0, 8, std::as_bytes(std::span(numbers)).subspan(8)));
  REQUIRE(writer->write(0, 0, std::as_bytes(std::span(numbers)).first(8)));
  CHECK_FALSE(writer->write(0, 20, std::as_bytes(std::span(numbers)).first(8)));
  CHECK_FALSE(std::filesystem::exists(folder / "f.safetensors"));
  REQUIRE(writer->finish());
  const auto file = SafetensorsFile::open(folder / "f.safetensors");
  REQUIRE(file);
  CHECK(file->header().metadata.at("who") == "\"me\"");
  const TensorInfo* tensor = file->find("numbers");
  REQUIRE(tensor != nullptr);
  const auto bytes = file->bytes(*tensor);
  CHECK(std::memcmp(bytes.data(), numbers.data(), bytes.size()) == 0);
  CHECK(file->find("ids")->shape == std::vector<std::uint64_t>{3, 1});
  CHECK(file->find("nothing") == nullptr);
}

TEST_CASE("an abandoned write leaves no file behind") {
  TemporaryFolder folder;
  { const auto writer = SafetensorsWriter::create(folder / "f.safetensors", {{"a", DType::u8, {1}}}, {}); }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("of several writers of a path that replace nothing one succeeds, and its file stays") {
  TemporaryFolder folder;
  const auto path = folder / "f.safetensors";
  const auto begin = [&](SafetensorsWriter::Existing existing) {
    return SafetensorsWriter::create(path, {{"a", DType::u8, {1}}}, {}, existing);
  };
  using enum SafetensorsWriter::Existing;
  const std::byte one{1}, two{2};
  {
    auto first = begin(refuse);
    REQUIRE(first);
    REQUIRE(first->write(0, 0, std::span(&one, 1)));
    const auto second = begin(refuse);  // beside it
    REQUIRE_FALSE(second);
    CHECK(second.error().code == schema::ErrorCode::already_exists);
    REQUIRE(first->finish());
  }
  const auto after = begin(refuse);
  REQUIRE_FALSE(after);
  CHECK(after.error().message.find("f.safetensors exists already") != std::string::npos);
  std::filesystem::remove(path);
  auto late = begin(refuse);
  REQUIRE(late);
  std::filesystem::create_hard_link(path.string() + ".partial", folder / "kept");
  std::filesystem::remove(path.string() + ".partial");
  auto other = begin(replace);
  REQUIRE(other);
  REQUIRE(other->write(0, 0, std::span(&two, 1)));
  REQUIRE(other->finish());
  std::filesystem::rename(folder / "kept", path.string() + ".partial");
  const auto refused = late->finish();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == schema::ErrorCode::already_exists);
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file);
  CHECK(file->bytes(*file->find("a"))[0] == two);
  CHECK_FALSE(std::filesystem::exists(path.string() + ".partial"));
}

TEST_CASE("a file that shrinks while it is mapped is noticed before it is read") {
  TemporaryFolder folder;
  write_bytes(folder / "f.safetensors",
              with_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
  const auto file = SafetensorsFile::open(folder / "f.safetensors");
  REQUIRE(file);
  CHECK(file->check_unchanged());
  std::filesystem::resize_file(folder / "f.safetensors", 9);
  const auto changed = file->check_unchanged();
  REQUIRE_FALSE(changed);
  CHECK(changed.error().code == schema::ErrorCode::io);
}

TEST_CASE("a folder, a missing file and a pipe are refused with the path") {
  TemporaryFolder folder;
  CHECK_FALSE(SafetensorsFile::open(folder.path()));
  const auto missing = SafetensorsFile::open(folder / "none");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == schema::ErrorCode::not_found);
  CHECK(contains(missing.error().message, "none"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(SafetensorsFile::open(folder / "pipe"));
}
