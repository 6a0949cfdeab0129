#include <doctest/doctest.h>

#include "daemon/pipeline/requests/request.hpp"
#include "daemon/pipeline/stages/progress.hpp"

using namespace driftgate::pipeline;

TEST_CASE("a promotion request is read and written without loss") {
  const auto request = parse_promotion_request(
      R"({"model": "m", "engine": "e", "contract": "c", "note": "n", "captures": {"numeric": {"train": "a/b", "inf": {"adapter": "x"}, "corpus": "c.jsonl"}}})");
  REQUIRE(request.has_value());
  CHECK(request->numeric->inf.adapter == "x");
  CHECK_FALSE(request->slice.has_value());
  CHECK(parse_promotion_request(to_json(*request)).value() == *request);
}

TEST_CASE("a request says by a switch that it accepts clauses that cannot be decided") {
  const auto read = [](const char* value) {
    return parse_promotion_request(
        std::string(R"({"model": "m", "engine": "e", "contract": "c", "accept_undecidable": )") + value +
        "}");
  };
  CHECK(read("true")->accept_undecidable);
  CHECK_FALSE(read("false")->accept_undecidable);
  CHECK(parse_promotion_request(to_json(*read("true"))).value() == *read("true"));
  CHECK(read("1").error().where == "/accept_undecidable");
}

TEST_CASE("a promotion request with a fault names the fault's place") {
  const auto where = [](const char* text) {
    const auto request = parse_promotion_request(text);
    return request ? std::string("accepted") : request.error().where;
  };
  CHECK(where(R"({"engine": "e", "contract": "c"})") == "/model");
  CHECK(where(R"({"model": "m", "engine": "e", "contract": "c", "modle": 1})") == "/modle");
  CHECK(where(R"({"model": "m", "engine": "e", "contract": "c", "captures": {"numeric": {"inf": "x"}}})") ==
        "/captures/numeric/train");
  CHECK(
      where(
          R"({"model": "m", "engine": "e", "contract": "c", "captures": {"numeric": {"train": "x", "inf": {"argv": []}}}})") ==
      "/captures/numeric/inf/argv");
  CHECK(where(R"({"model": "a b", "engine": "e", "contract": "c"})") == "/model");
}

TEST_CASE("floors are second runs of a kernel, or two runs of it") {
  const auto read = [](const std::string& floor) {
    return parse_promotion_request(
        R"({"model": "m", "engine": "e", "contract": "c", "captures": {"slice": {"train": "t", "inf": "i", "floor": )" +
        floor + "}}}");
  };
  const auto one = read(R"({"train": "t2"})");
  REQUIRE(one);
  CHECK_FALSE(one->slice->floor_train->first);
  CHECK(one->slice->floor_train->second.uri == "t2");
  CHECK_FALSE(one->slice->floor_inf);
  const auto both = read(R"({"train": ["a", "b"], "inf": {"adapter": "batched"}})");
  REQUIRE(both);
  CHECK(both->slice->floor_train->first->uri == "a");
  CHECK(both->slice->floor_inf->second.adapter == "batched");
  for (const auto* request : {&*one, &*both})
    CHECK(parse_promotion_request(to_json(*request)).value() == *request);

  const auto fault = [&](const std::string& floor) {
    const auto request = read(floor);
    return request ? std::string("accepted") : request.error().where + ": " + request.error().message;
  };
  CHECK(fault(R"({"train": "t"})").find("the stage's own capture, which shows no noise") !=
        std::string::npos);
  CHECK(fault(R"({"inf": ["a", "a"]})").starts_with("/captures/slice/floor/inf: both captures"));
  CHECK(fault(R"({"inf": ["a"]})").find("a list of two") != std::string::npos);
  CHECK(fault(R"({"inf": ["a", "b", "c"]})").find("a list of two") != std::string::npos);
  CHECK(fault(R"({"inf": ["a", 7]})").find("a list of two") != std::string::npos);
  CHECK(fault(R"({"inf": ["a", {"argv": []}]})").starts_with("/captures/slice/floor/inf/1/argv"));
  CHECK(fault(R"({"trian": "x"})").starts_with("/captures/slice/floor/trian"));
  CHECK(fault(R"("t2")").starts_with("/captures/slice/floor"));
}

TEST_CASE("a stage's progress survives its JSON, and damaged JSON gives the defaults") {
  StageProgress progress;
  progress.phase = "ramping";
  progress.pairs = 12;
  progress.max_e_value = 1e300;
  progress.frozen = true;
  progress.first_failure_us = 1'800'000'000'000'123;
  const auto again = progress_from_json(to_json(progress));
  CHECK(again.phase == "ramping");
  CHECK(again.pairs == 12);
  CHECK(again.max_e_value == 1e300);
  CHECK(again.frozen);
  CHECK(again.first_failure_us == progress.first_failure_us);
  CHECK(progress_from_json("{\"phase\": 7, \"pairs\"").phase.empty());
  CHECK(progress_from_json("").pairs == 0);
}
