#include "examples/tinylm/src/model.hpp"

#include <openssl/evp.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

namespace tinylm {
namespace {

using nlohmann::json;

std::string sha256_hex(const std::string& bytes) {
  std::array<unsigned char, 32> digest{};
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4U];
    hex += "0123456789abcdef"[byte & 15U];
  }
  return hex;
}

Result<std::string> slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("cannot open " + path + ": check that the file exists and may be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Keys in name order and no spaces: the canonical form of RFC 8785 for these values.
Result<std::string> digest_of(const std::string& folder) {
  json manifest = json::array();
  for (const char* name : {"config.json", "model.safetensors"}) {
    auto bytes = slurp(folder + "/" + name);
    if (!bytes) return std::unexpected(bytes.error());
    manifest.push_back({{"path", name}, {"sha256", sha256_hex(*bytes)}, {"size", bytes->size()}});
  }
  return "sha256:" + sha256_hex(manifest.dump());
}

Result<Config> parse_config(const std::string& path) {
  auto text = slurp(path);
  if (!text) return std::unexpected(text.error());
  try {
    const json j = json::parse(*text);
    Config c;
    c.hidden = j.at("hidden_size");
    c.intermediate = j.at("intermediate_size");
    c.layers = j.at("num_hidden_layers");
    c.heads = j.at("num_attention_heads");
    c.vocabulary = j.at("vocab_size");
    c.max_positions = j.at("max_position_embeddings");
    c.norm_eps = j.at("rms_norm_eps");
    c.rope_theta = j.at("rope_theta");
    if (j.value("num_key_value_heads", c.heads) != c.heads || j.value("tie_word_embeddings", false))
      return fail(path + ": tinylm does not support grouped heads and tied embeddings");
    const bool sane = c.heads > 0 && c.hidden % (16 * c.heads) == 0 && c.hidden <= 1024 && c.layers > 0 &&
                      c.layers <= 64 && c.intermediate % 16 == 0 && c.intermediate <= 1024 &&
                      c.vocabulary == 257 && c.max_positions > 0 && c.max_positions <= 8192;
    if (!sane) return fail(path + ": sizes must be multiples of 16 within tinylm's limits, with 257 tokens");
    return c;
  } catch (const json::exception& error) {
    return fail(path + ": " + error.what());
  }
}

Result<void> check_shapes(const Model& model) {
  const Config& c = model.config;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> wanted = {
      {"model.embed_tokens.weight", {c.vocabulary, c.hidden}},
      {"model.norm.weight", {c.hidden}},
      {"lm_head.weight", {c.vocabulary, c.hidden}}};
  for (std::size_t i = 0; i < c.layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      wanted.push_back({at + "self_attn." + name + ".weight", {c.hidden, c.hidden}});
    wanted.push_back({at + "mlp.gate_proj.weight", {c.intermediate, c.hidden}});
    wanted.push_back({at + "mlp.up_proj.weight", {c.intermediate, c.hidden}});
    wanted.push_back({at + "mlp.down_proj.weight", {c.hidden, c.intermediate}});
    wanted.push_back({at + "input_layernorm.weight", {c.hidden}});
    wanted.push_back({at + "post_attention_layernorm.weight", {c.hidden}});
  }
  for (const auto& [name, shape] : wanted) {
    const auto found = model.weights.tensors.find(name);
    if (found == model.weights.tensors.end()) return fail("model.safetensors has no tensor " + name);
    if (found->second.shape != shape)
      return fail("model.safetensors: " + name + " has a shape that differs from config.json");
    if (!found->second.integers.empty()) return fail("model.safetensors: " + name + " holds integers");
  }
  return {};
}

}  // namespace

Result<std::string> file_sha256(const std::string& path) {
  auto bytes = slurp(path);
  if (!bytes) return std::unexpected(bytes.error());
  return sha256_hex(*bytes);
}

Result<Model> load_model(const std::string& folder) {
  auto config = parse_config(folder + "/config.json");
  if (!config) return std::unexpected(config.error());
  auto weights = read_safetensors(folder + "/model.safetensors");
  if (!weights) return std::unexpected(weights.error());
  auto digest = digest_of(folder);
  if (!digest) return std::unexpected(digest.error());
  Model model{*config, std::move(*weights), std::move(*digest)};
  auto checked = check_shapes(model);
  if (!checked) return std::unexpected(checked.error());
  return model;
}

}  // namespace tinylm
