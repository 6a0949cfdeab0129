// What an untrusted bundle may cost: the length of its lines, and the depth and number of their values.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <streambuf>

#include "daemon/evidence/bundle/bundle_record.hpp"
#include "daemon/evidence/bundle/verify_bundle.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using nlohmann::json;

namespace {

/// An input of `size` equal characters and then a rest, which nobody has to hold.
class Endless final : public std::streambuf {
 public:
  Endless(std::size_t size, std::string rest) : left_(size), rest_(std::move(rest)) {
    chunk_.assign(1 << 16, 'x');
  }
  [[nodiscard]] std::size_t read() const { return read_; }

 private:
  int_type underflow() override {
    std::string& from = left_ > 0 ? chunk_ : rest_;
    const std::size_t size = left_ > 0 ? std::min(left_, chunk_.size()) : rest_.size();
    left_ -= left_ > 0 ? size : 0;
    if (size == 0 || ended_) return traits_type::eof();
    ended_ = &from == &rest_;
    read_ += size;
    setg(from.data(), from.data(), from.data() + size);
    return traits_type::to_int_type(from.front());
  }
  std::size_t left_, read_ = 0;
  std::string chunk_, rest_;
  bool ended_ = false;
};

BundleRecord record(const json& members) {
  return BundleRecord::parse(members.dump()).value();
}

std::string fault(const schema::Result<void>& result) {
  return result ? "" : result.error().message;
}

}  // namespace

TEST_CASE("a line may have 48 MiB and no byte more, and nothing behind a longer one is read") {
  std::string line;
  Endless most(kMaxBundleLine, "\nnext\n");
  std::istream in(&most);
  CHECK(read_line(in, line) == LineEnd::whole);
  CHECK(line.size() == kMaxBundleLine);
  CHECK(read_line(in, line) == LineEnd::whole);
  CHECK(line == "next");
  Endless more(std::size_t{1} << 40, "");
  std::istream too_long(&more);
  const auto report = verify_bundle(too_long, {});
  CHECK(report.result == BundleResult::tampered);
  REQUIRE(!report.findings.empty());
  CHECK(report.findings[0].message == "the bundle has a line of more than 48 MiB");
  CHECK(more.read() < kMaxBundleLine + (1 << 17));
}

TEST_CASE("a line has at most eight levels and 4,096 values, and numbers that every reader keeps") {
  const auto nested = [](std::size_t depth) {
    return R"({"a":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + R"(,"t":"x"})";
  };
  CHECK(BundleRecord::parse(nested(8)));
  CHECK(!BundleRecord::parse(nested(9)));
  CHECK(!BundleRecord::parse(nested(100'000)));
  const auto wide = [](std::size_t items) {
    return json{{"a", std::vector<int>(items, 0)}, {"t", "x"}}.dump();
  };
  CHECK(BundleRecord::parse(wide(4'000)));
  CHECK(!BundleRecord::parse(wide(4'097)));
  CHECK(BundleRecord::parse(R"({"n":9007199254740991,"t":"x"})"));
  for (const char* bad : {R"({"n":9007199254740992,"t":"x"})", R"({"n":18446744073709551616,"t":"x"})",
                          R"({"n":1e400,"t":"x"})", R"({"n":NaN,"t":"x"})"}) {
    CAPTURE(bad);
    CHECK(!BundleRecord::parse(bad));
  }
}

TEST_CASE("a record is an object of a kind, with exactly the members that its kind has") {
  for (const char* bad : {"[]", "1", "null", "\"t\"", "{}", R"({"t":1})", R"({"t":null})", R"({"T":"x"})"}) {
    CAPTURE(bad);
    CHECK(!BundleRecord::parse(bad));
  }
  const auto one = record({{"t", "x"}, {"a", 1}, {"b", 2}});
  CHECK(one.expect({"a", "b"}));
  CHECK(fault(one.expect({"a"})) == "b must be absent: there is no such member");
  CHECK(fault(one.expect({"a", "b", "c"})) == "c must be there");
  const std::string name(200, 'n');
  CHECK(fault(record({{"t", "x"}, {name, 1}}).expect({})).size() < 130);
}

TEST_CASE("members are read by their type, and hashes in one spelling") {
  const std::string hash(64, 'a');
  const auto one = record({{"t", "x"},
                           {"text", "a"},
                           {"zero", 0},
                           {"minus", -1},
                           {"half", 0.5},
                           {"hash", hash},
                           {"upper", std::string(64, 'A')},
                           {"short", std::string(62, 'a')},
                           {"list", {hash, hash}},
                           {"mixed", {hash, 1}}});
  CHECK(one.text("text").value() == "a");
  CHECK(!one.text("zero"));
  CHECK(one.number("zero").value() == 0);
  for (const char* name : {"minus", "half", "text", "list"}) {
    CAPTURE(name);
    CHECK(one.number(name).error().message == std::string(name) + " must be a whole number from 0");
  }
  CHECK(one.hash("hash").value()[31] == 0xaa);
  for (const char* name : {"upper", "short", "text", "zero"}) {
    CAPTURE(name);
    CHECK(one.hash(name).error().message == std::string(name) + " must be 64 lower-case hex digits");
  }
  CHECK(one.hashes("list").value().size() == 2);
  CHECK(!one.hashes("mixed"));
  CHECK(!one.hashes("hash"));
}
