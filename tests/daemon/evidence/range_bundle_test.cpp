// Bundles of a time range: what stands beside the entries, and that neither end nor middle can be cut away.
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/daemon/evidence/promotion_log.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using namespace driftgate::store::testing;
using nlohmann::json;
using schema::ErrorCode;
using schema::EvidenceKind;

namespace {

/// Thirty entries at 100, 110, … 390, of which the last four are a promotion that was aborted.
struct Range : PromotionLog {
  Range() {
    for (std::int64_t i = 0; i < 26; ++i) append_one(*store, draft(100 + 10 * i));
    now_us = 350;
    request();
    state("running", "offline-numeric");
    stage("offline-numeric", "violated");
  }
  std::string of(std::int64_t from_us, std::int64_t to_us) {
    return bundle({.from_us = from_us, .to_us = to_us});
  }
  std::pair<std::uint64_t, std::uint64_t> bounds(std::int64_t from_us, std::int64_t to_us) {
    const std::string bytes = of(from_us, to_us);
    const auto report = verify(bytes);
    CHECK_MESSAGE(report.result == BundleResult::ok, text_of(report));
    const Lines lines = lines_of(bytes);
    CHECK(report.entries == lines.size() - 3);
    return {lines[1]["first"].get<std::uint64_t>(), lines[1]["end"].get<std::uint64_t>()};
  }
};

// Of the range from entry 4 on, with seven entries.
const std::vector<Change> kChanges = {
    {"left", [](Lines& l) { l[1]["left"][0] = std::string(64, 'a'); }, BundleResult::tampered,
     "the entries and the hashes beside them do not make the root of the checkpoint"},
    {"right", [](Lines& l) { l[1]["right"][4] = std::string(64, 'a'); }, BundleResult::tampered,
     "do not make the root of the checkpoint"},
    {"swapped", [](Lines& l) { std::swap(l[1]["right"][0], l[1]["right"][1]); }, BundleResult::tampered,
     "do not make the root of the checkpoint"},
    {"less left", [](Lines& l) { l[1]["left"].clear(); }, BundleResult::tampered,
     "left must be the subtrees before the range"},
    {"less right", [](Lines& l) { l[1]["right"].erase(0); }, BundleResult::tampered,
     "right must be the subtrees after the range"},
    {"beyond the tree", [](Lines& l) { l[1]["end"] = 31; }, BundleResult::tampered,
     "must be a range of the tree"},
    {"reversed", [](Lines& l) { l[1]["first"] = 12; }, BundleResult::tampered, "must be a range of the tree"},
    {"no range", [](Lines& l) { erase_line(l, 1); }, BundleResult::tampered,
     "the range of the entries must stand before them"},
    {"two ranges", [](Lines& l) { l.insert(l.begin() + 1, l[1]); }, BundleResult::tampered,
     "a range stands after the header, once"},
    {"first entry", [](Lines& l) { erase_line(l, 2); }, BundleResult::incomplete,
     "entries 4 to 4 are missing"},
    {"middle", [](Lines& l) { erase_line(l, 4), erase_line(l, 4); }, BundleResult::incomplete,
     "entries 6 to 7 are missing"},
    {"last entry", [](Lines& l) { erase_line(l, 8); }, BundleResult::incomplete,
     "entries 10 to 10 are missing"},
    {"order", [](Lines& l) { std::swap(l[4], l[5]); }, BundleResult::tampered,
     "entry 6 stands where entry 8 should"},
    {"twice", [](Lines& l) { l.insert(l.begin() + 4, l[4]); }, BundleResult::tampered,
     "entry 6 stands where entry 7 should"},
    {"bytes",
     [](Lines& l) {
       auto bytes = l[4]["entry"].get<std::string>();
       l[4]["entry"] = bytes.replace(bytes.find("\"x\""), 3, "\"y\"");
     },
     BundleResult::tampered, "do not make the root of the checkpoint"},
    {"with a proof", [](Lines& l) { l[4]["proof"] = json::array(); }, BundleResult::tampered,
     "proof must be absent"},
    {"wider from", [](Lines& l) { l[0]["from_us"] = 140; }, BundleResult::incomplete,
     "entry 4 is in the time range, and those before it are missing"},
    {"wider to", [](Lines& l) { l[0]["to_us"] = 201; }, BundleResult::incomplete,
     "entry 10 is in the time range, and those after it are missing"},
    {"ends before it begins", [](Lines& l) { l[0]["to_us"] = 149; }, BundleResult::tampered,
     "from_us and to_us must be a range of times"},
    {"negative", [](Lines& l) { l[0]["from_us"] = -1; }, BundleResult::tampered,
     "from_us and to_us must be a range of times"},
    {"an attestation",
     [](Lines& l) {
       const json line{{"t", "attestation"}, {"envelope", json::object()}};
       l.insert(l.end() - 1, line);
     },
     BundleResult::tampered, "attestations stand in the bundle of a promotion"},
    {"a blob",
     [](Lines& l) {
       const json line{{"t", "blob"}, {"digest", "sha256:0"}, {"bytes", ""}};
       l.insert(l.end() - 1, line);
     },
     BundleResult::tampered, "blobs stand in the bundle of a promotion"},
};

}  // namespace

TEST_CASE_FIXTURE(Range, "a range reaches one entry beyond both ends of its time, as far as the log goes") {
  using Bounds = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(bounds(150, 200) == Bounds{4, 11});
  CHECK(bounds(151, 200) == Bounds{5, 11});
  CHECK(bounds(150, 201) == Bounds{4, 12});
  CHECK(bounds(0, 101) == Bounds{0, 2});
  CHECK(bounds(0, 1'000) == Bounds{0, 30});
  CHECK(bounds(390, 391) == Bounds{28, 30});
  CHECK(bounds(155, 155) == Bounds{5, 7});
  CHECK(bounds(0, 50) == Bounds{0, 1});
  CHECK(bounds(500, 600) == Bounds{29, 30});
}

TEST_CASE_FIXTURE(
    Range, "promotions are followed within a range, and what lies before it is not held against them") {
  CHECK(verify(of(0, 1'000)).verdicts == 1);
  CHECK(verify(of(375, 1'000)).result == BundleResult::ok);
  auto wrong = clause_body("pass");
  wrong["verdict"] = "violated";
  const auto seq = add(EvidenceKind::verdict_reached, "driftgate", std::move(wrong), "offline-numeric");
  const auto report = verify(of(0, 1'000));
  CHECK(report.result == BundleResult::underivable);
  CHECK_MESSAGE(text_of(report).find("entry " + std::to_string(seq) +
                                     ": body/verdict of numerical.kl is violated") != std::string::npos,
                text_of(report));
}

TEST_CASE_FIXTURE(Range, "each change of a range is found and named, though its end was made anew") {
  const Lines lines = lines_of(of(150, 200));  // header, range 4 to 11, seven entries, end
  REQUIRE(lines.size() == 10);
  REQUIRE(lines[1]["left"].size() == 1);
  REQUIRE(lines[1]["right"].size() == 5);
  auto changes = kChanges;
  changes.push_back({"no entries",
                     [&](Lines& l) {
                       while (l.size() > 3) erase_line(l, 2);
                       l[1]["end"] = 4;
                       l[1]["right"] = lines_of(of(0, 50))[1]["right"];
                       l[1]["right"].erase(l[1]["right"].begin(),
                                           l[1]["right"].begin() + 2);  // those of 4 to 30
                     },
                     BundleResult::incomplete, "the range has no entry, and the log has some"});
  check_changes(lines, changes, sealed);
}

TEST_CASE_FIXTURE(Range, "a range of no log, or one that cannot be, is refused before anything is made") {
  const auto refused = [&](const BundleRequest& request) {
    const auto opened = BundleExport::open(*store, *heads, *signer, request);
    REQUIRE(!opened);
    return opened.error();
  };
  CHECK(refused({.promotion = "pr-2"}).code == ErrorCode::not_found);
  CHECK(refused({.promotion = "pr-2"}).message == "there is no promotion pr-2");
  CHECK(refused({.from_us = 2, .to_us = 1}).code == ErrorCode::invalid_argument);
  CHECK(refused({.to_us = 1, .older_size = 31}).message == "the evidence log has 30 entries, not 31");
  TempDir other;
  auto empty = open_store(other.path());
  auto empty_heads = must(HeadPublisher::start(*empty, {}));
  auto source = must(BundleExport::open(*empty, *empty_heads, *signer, {.from_us = 0, .to_us = 10}));
  std::string all;
  for (auto piece = must(source->next()); !piece.empty(); piece = must(source->next())) all += piece;
  options.trust.keys[0].key = must(SigningKey::load((other.path() / "log.key").string())).public_key();
  const auto report = verify(all);
  CHECK_MESSAGE(report.result == BundleResult::ok, text_of(report));
  CHECK(report.tree_size == 0);
}

TEST_CASE_FIXTURE(
    Range, "times that a bundle cannot state are refused, and not made into one that does not verify") {
  constexpr std::int64_t kLast = 9'007'199'254'740'991;
  CHECK(verify(of(0, kLast)).result == BundleResult::ok);
  for (const auto& [from_us, to_us] :
       {std::pair<std::int64_t, std::int64_t>{-1, 100}, {0, kLast + 1}, {kLast + 2, kLast + 2}}) {
    CAPTURE(from_us);
    const auto opened = BundleExport::open(*store, *heads, *signer, {.from_us = from_us, .to_us = to_us});
    REQUIRE(!opened);
    CHECK(opened.error().code == ErrorCode::invalid_argument);
    CHECK(opened.error().message.find("2^53") != std::string::npos);
  }
}

TEST_CASE_FIXTURE(Range, "a bundle made again is the same one, byte for byte, though the log has grown") {
  auto source = must(BundleExport::open(*store, *heads, *signer, {.from_us = 0, .to_us = 1'000}));
  std::string first, second;
  for (auto piece = must(source->next()); !piece.empty(); piece = must(source->next())) first += piece;
  append_one(*store, draft(395));
  auto again = source->again();
  for (auto piece = must(again->next()); !piece.empty(); piece = must(again->next())) second += piece;
  CHECK(second == first);
  CHECK(of(0, 1'000) != first);
}
