#include "examples/tinylm/src/safetensors.hpp"

#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace tinylm {
namespace {

using nlohmann::json;
constexpr std::size_t kMaxFileBytes = 256U << 20U;
constexpr std::size_t kMaxHeaderBytes = 16U << 20U;

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23U) | (fraction << 13U));
}

Result<std::string> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fail("cannot open " + path + ": check that the file exists and may be read");
  const auto size = static_cast<std::size_t>(file.tellg());
  if (size > kMaxFileBytes) return fail(path + " is larger than the limit of 256 MB");
  std::string bytes(size, '\0');
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!file) return fail("cannot read " + path + " to its end");
  return bytes;
}

Result<Tensor> parse_tensor(const std::string& where, const json& entry, const char* data, std::size_t size) {
  Tensor tensor;
  std::size_t count = 1;
  for (const json& dimension : entry.at("shape")) {
    tensor.shape.push_back(dimension.get<std::size_t>());
    if (tensor.shape.back() != 0 && count > kMaxFileBytes / tensor.shape.back())
      return fail(where + ": its shape exceeds the limit of 256 MB");
    count *= tensor.shape.back();
  }
  const auto begin = entry.at("data_offsets").at(0).get<std::size_t>();
  const auto end = entry.at("data_offsets").at(1).get<std::size_t>();
  const auto type = entry.at("dtype").get<std::string>();
  const std::size_t width = type == "F16" ? 2 : 4;
  if (begin > end || end > size || end - begin != count * width)
    return fail(where + ": its byte range does not fit its shape or the file");
  if (type == "F32") {
    tensor.floats.resize(count);
    if (count != 0) std::memcpy(tensor.floats.data(), data + begin, end - begin);
  } else if (type == "I32") {
    tensor.integers.resize(count);
    if (count != 0) std::memcpy(tensor.integers.data(), data + begin, end - begin);
  } else if (type == "F16") {
    tensor.floats.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, data + begin + 2 * i, 2);
      tensor.floats[i] = half_to_float(half);
    }
  } else {
    return fail(where + ": type " + type + " is not one of F32, F16, I32");
  }
  return tensor;
}

Result<TensorFile> parse(const std::string& path, const std::string& bytes) {
  std::uint64_t header_size = 0;
  if (bytes.size() < 8) return fail(path + " is too short to be a safetensors file");
  std::memcpy(&header_size, bytes.data(), 8);
  if (header_size > kMaxHeaderBytes || header_size > bytes.size() - 8)
    return fail(path + ": the header is larger than the file or than 16 MB");
  const json header = json::parse(bytes.data() + 8, bytes.data() + 8 + header_size);
  const char* data = bytes.data() + 8 + header_size;
  TensorFile file;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    auto tensor = parse_tensor(path + ", tensor " + name, entry, data, bytes.size() - 8 - header_size);
    if (!tensor) return std::unexpected(tensor.error());
    file.tensors.emplace(name, std::move(*tensor));
  }
  return file;
}

}  // namespace

Result<TensorFile> read_safetensors(const std::string& path) {
  auto bytes = read_bytes(path);
  if (!bytes) return std::unexpected(bytes.error());
  try {
    return parse(path, *bytes);
  } catch (const json::exception& error) {
    return fail(path + ": the header breaks the rules of safetensors: " + error.what());
  }
}

Result<void> write_safetensors(const std::string& path, const TensorFile& file) {
  json header = {{"__metadata__", file.metadata}};
  std::size_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const std::size_t size = 4 * (tensor.floats.size() + tensor.integers.size());
    header[name] = {{"dtype", tensor.integers.empty() ? "F32" : "I32"},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + size}}};
    offset += size;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t header_size = text.size();
  const std::string partial = path + ".partial";
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&header_size), 8);
    out << text;
    for (const auto& [name, tensor] : file.tensors) {
      out.write(reinterpret_cast<const char*>(tensor.floats.data()),
                static_cast<std::streamsize>(4 * tensor.floats.size()));
      out.write(reinterpret_cast<const char*>(tensor.integers.data()),
                static_cast<std::streamsize>(4 * tensor.integers.size()));
    }
    out.flush();
    if (!out) return fail("cannot write " + partial + ": check the folder and the space left");
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0)
    return fail("cannot rename " + partial + " to " + path);
  return {};
}

}  // namespace tinylm
