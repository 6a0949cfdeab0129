#include "examples/tinylm/src/safetensors.hpp"

#include <fstream>

#include "tests/examples/tinylm/fixtures.hpp"

using namespace tinylm;

namespace {

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("tensors and metadata survive a round trip") {
  const tinylm_tests::TemporaryFolder folder;
  TensorFile file;
  file.metadata["kernel"] = "tinylm-f32";
  file.tensors["a"] = {{2, 2}, {1, 2, 3, 4}, {}};
  file.tensors["b"] = {{3}, {}, {7, 8, 9}};
  REQUIRE(write_safetensors(folder.file("x"), file).has_value());
  const auto read = read_safetensors(folder.file("x"));
  REQUIRE(read.has_value());
  CHECK(read->metadata == file.metadata);
  CHECK(read->tensors.at("a").floats == file.tensors["a"].floats);
  CHECK(read->tensors.at("b").integers == file.tensors["b"].integers);
}

TEST_CASE("a file cut at any byte is an error") {
  const tinylm_tests::TemporaryFolder folder;
  TensorFile file;
  file.tensors["a"] = {{2}, {1, 2}, {}};
  REQUIRE(write_safetensors(folder.file("x"), file).has_value());
  const std::string bytes = bytes_of_file(folder.file("x"));
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    CAPTURE(n);
    std::ofstream(folder.file("cut"), std::ios::binary | std::ios::trunc) << bytes.substr(0, n);
    CHECK_FALSE(read_safetensors(folder.file("cut")).has_value());
  }
}

TEST_CASE("a tensor that lies about its size is an error") {
  const tinylm_tests::TemporaryFolder folder;
  for (const std::string entry :
       {R"({"dtype":"F32","shape":[4],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[8,16]})",
        R"({"dtype":"F32","shape":[18446744073709551615,18446744073709551615],"data_offsets":[0,8]})",
        R"({"dtype":"F8","shape":[8],"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"}) {
    CAPTURE(entry);
    const std::string header = R"({"a":)" + entry + "}";
    const std::uint64_t size = header.size();
    std::ofstream out(folder.file("x"), std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&size), 8);
    out << header << std::string(8, '\0');
    out.close();
    CHECK_FALSE(read_safetensors(folder.file("x")).has_value());
  }
}
