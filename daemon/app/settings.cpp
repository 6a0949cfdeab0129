#include "daemon/app/settings.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <set>

#include "schema/document/fields.hpp"

namespace driftgate::app {
namespace {

using schema::ErrorCode;

constexpr std::size_t kMaxFileBytes = 256 * 1024;
constexpr std::size_t kMaxItems = 1'000;

/// Collects faults with their positions while values are read.
class SettingsReader {
 public:
  SettingsReader(std::string_view name, Settings& into) : name_(name), into_(into) {}

  void read_mapping(const YAML::Node& node, const std::string& prefix) {
    std::set<std::string> seen;
    for (const auto& item : node) {
      if (!item.first.IsScalar()) {
        fault(item.first, "a key must be a plain word");
        continue;
      }
      const std::string key = prefix + item.first.Scalar();
      if (!seen.insert(key).second)
        fault(item.first, fmt::format("'{}' is given twice", key));
      else
        read_key(item.first, item.second, key);
    }
  }

  void fault(const YAML::Node& at, const std::string& message) { fault(at.Mark(), message); }
  void fault(const YAML::Mark& mark, const std::string& message) {
    faults_ += fmt::format("{}{}:{}:{}: {}", faults_.empty() ? "" : "\n", name_, mark.line + 1,
                           mark.column + 1, message);
  }
  [[nodiscard]] const std::string& faults() const { return faults_; }

 private:
  void read_key(const YAML::Node& at, const YAML::Node& value, const std::string& key) {
    bool is_section = false;
    std::vector<std::string_view> names;
    for (const SettingSpec& spec : setting_specs()) {
      if (spec.key == key)
        return std::visit([&](auto member) { read_into(spec, value, into_.*member); }, spec.target);
      is_section = is_section || spec.key.starts_with(key + ".");
      names.push_back(spec.key);
    }
    if (is_section && value.IsMap()) return read_mapping(value, key + ".");
    if (is_section && value.IsNull()) return;
    if (is_section)
      return fault(value, fmt::format("'{}' is a section: write its keys below it, indented", key));
    const auto nearest = schema::nearest_name(key, names);
    fault(at, fmt::format("unknown key '{}'{}", key,
                          nearest ? fmt::format("; did you mean '{}'?", *nearest)
                                  : "; 'driftgate settings' lists all"));
  }

  void read_into(const SettingSpec& spec, const YAML::Node& value, std::string& into) {
    if (value.IsNull()) return into.clear();
    if (!value.IsScalar()) return fault(value, fmt::format("'{}' must be a string", spec.key));
    const std::string& text = value.Scalar();
    if (!spec.choices.empty() && std::ranges::find(spec.choices, text) == spec.choices.end()) {
      return fault(value,
                   fmt::format("'{}' is '{}'; allowed: {}", spec.key, text, fmt::join(spec.choices, ", ")));
    }
    into = text;
  }

  void read_into(const SettingSpec& spec, const YAML::Node& value, std::int64_t& into) {
    std::int64_t number = 0;
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || ec != std::errc{} || end != text.data() + text.size())
      return fault(value, fmt::format("'{}' must be a whole number{}", spec.key, in_unit(spec)));
    if (number < spec.min || number > spec.max)
      return fault(value, fmt::format("'{}' is {}; allowed: {} to {}{}", spec.key, number, spec.min, spec.max,
                                      in_unit(spec)));
    into = number;
  }

  void read_into(const SettingSpec& spec, const YAML::Node& value, bool& into) {
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    if (text != "true" && text != "false")
      return fault(value, fmt::format("'{}' must be true or false", spec.key));
    into = text == "true";
  }

  void read_into(const SettingSpec& spec, const YAML::Node& value, std::vector<std::string>& into) {
    if (value.IsNull()) return into.clear();
    if (!value.IsSequence() || value.size() > kMaxItems)
      return fault(value, fmt::format("'{}' must be a list of at most {} strings", spec.key, kMaxItems));
    std::vector<std::string> items;
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) return fault(item, fmt::format("an item of '{}' must be a string", spec.key));
      if (!spec.choices.empty() && std::ranges::find(spec.choices, item.Scalar()) == spec.choices.end())
        return fault(item, fmt::format("an item of '{}' is '{}'; allowed: {}", spec.key, item.Scalar(),
                                       fmt::join(spec.choices, ", ")));
      items.push_back(item.Scalar());
    }
    into = std::move(items);
  }

  void read_into(const SettingSpec& spec, const YAML::Node& value,
                 std::map<std::string, std::vector<std::string>>& into) {
    if (value.IsNull()) return;
    if (!value.IsMap() || value.size() > kMaxItems)
      return fault(value, fmt::format("'{}' must map at most {} names to lists", spec.key, kMaxItems));
    for (const auto& item : value) {
      std::vector<std::string> words;
      read_into(spec, item.second, words);
      const std::string name = item.first.IsScalar() ? item.first.Scalar() : "";
      if (words.empty() || !words.front().starts_with('/'))
        fault(
            item.second,
            fmt::format("adapter '{}' must be a list whose first word is the program's absolute path", name));
      else if (!into.emplace(name, std::move(words)).second)
        fault(item.first, fmt::format("adapter '{}' is given twice", name));
    }
  }

  void read_into(const SettingSpec& spec, const YAML::Node& value,
                 std::map<std::string, WebhookSetting>& into) {
    if (value.IsNull()) return;
    if (!value.IsMap() || value.size() > kMaxItems)
      return fault(value, fmt::format("'{}' must map at most {} names to {{url, secret_file, events}}",
                                      spec.key, kMaxItems));
    for (const auto& item : value) {
      const std::string name = item.first.IsScalar() ? item.first.Scalar() : "";
      if (name.empty() || !item.second.IsMap()) {
        fault(item.second, fmt::format("webhook '{}' must be {{url: …, secret_file: …, events: […]}}", name));
        continue;
      }
      WebhookSetting webhook;
      read_webhook(spec, name, item.second, webhook);
      if (!into.emplace(name, std::move(webhook)).second)
        fault(item.first, fmt::format("webhook '{}' is given twice", name));
    }
  }

  void read_webhook(const SettingSpec& spec, const std::string& name, const YAML::Node& value,
                    WebhookSetting& into) {
    for (const auto& member : value) {
      const std::string key = member.first.IsScalar() ? member.first.Scalar() : "";
      if (key == "url")
        read_into(spec, member.second, into.url);
      else if (key == "secret_file")
        read_into(spec, member.second, into.secret_file);
      else if (key == "events")
        read_into(spec, member.second, into.events);
      else
        fault(member.first,
              fmt::format("webhook '{}' has no '{}'; it has url, secret_file and events", name, key));
    }
    if (into.url.empty() || into.secret_file.empty())
      fault(value, fmt::format("webhook '{}' needs a url and a secret_file", name));
  }

  static std::string in_unit(const SettingSpec& spec) {
    return spec.unit.empty() ? "" : fmt::format(" {}", spec.unit);
  }

  std::string_view name_;
  Settings& into_;
  std::string faults_;
};

}  // namespace

schema::Result<Settings> parse_settings(std::string_view yaml, std::string_view name) {
  const auto refuse = [name](const std::string& why) {
    return schema::fail(ErrorCode::limit_exceeded, fmt::format("{}: {}", name, why));
  };
  if (yaml.find('\0') != std::string_view::npos) return refuse("the file contains a NUL byte");
  if (yaml.size() > kMaxFileBytes)
    return refuse(fmt::format("the file is larger than {} bytes", kMaxFileBytes));
  Settings settings;
  SettingsReader reader(name, settings);
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    if (root.IsMap())
      reader.read_mapping(root, "");
    else if (!root.IsNull())
      reader.fault(root, "the file must be a mapping of keys to values");
  } catch (const YAML::Exception& e) {
    reader.fault(e.mark, fmt::format("not YAML: {}", e.msg));
  }
  if (!reader.faults().empty()) return schema::fail(ErrorCode::invalid_document, reader.faults());
  return settings;
}

schema::Result<Settings> load_settings(const std::string& path, const std::string& data_dir) {
  std::string text;
  if (!path.empty()) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
      return schema::fail(
          ErrorCode::io,
          fmt::format("cannot read settings file '{}'; 'driftgate settings' prints a template", path));
    text.resize(kMaxFileBytes + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
  }
  auto settings = TRY(parse_settings(text, path));
  if (!data_dir.empty()) settings.data_dir = data_dir;
  return settings;
}

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? std::string(home) + path.substr(1) : path;
}

}  // namespace driftgate::app
