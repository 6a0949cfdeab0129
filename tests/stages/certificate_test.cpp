#include "stages/report/certificate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;

namespace {

/// Rollouts of the inference kernel in two languages, one of which drifts four times as much.
gpu::MeasurementTable rollouts() {
  auto table = make::table();
  table.train.kernel = "f32";
  table.inf.kernel = table.inf.token_source = table.train.token_source = "int8";
  table.train.sampling_filter = table.inf.sampling_filter = "none";
  table.train.file_digest = "sha256:aa", table.inf.file_digest = "sha256:bb";
  table.has_tokens = true;
  for (int i = 0; i < 120; ++i) {
    make::append(table, {16, i < 60 ? 0.02 : 0.005, {{"language", i < 60 ? "de" : "en"}}});
    table.infos.back().reward = 0.5;
    gpu::TargetTokenSums& sums = table.sequences.back().target;
    const double w = i % 2 == 0 ? 1.01 : 0.99;
    sums.n = 16, sums.w = 16 * w, sums.w_squares = 16 * w * w, sums.min_log_q = -3;
    table.sequences.back().head_tail_tv = make::constant(16, 0.03);
  }
  return table;
}

schema::Assumptions assumptions() {
  schema::Assumptions out;
  out.reward = schema::Assumptions::Reward{0, 1};
  out.policy = schema::Assumptions::Policy{1, 10, 0.2, {}};
  out.max_tokens = 16;
  return out;
}

struct Page {
  gpu::MeasurementTable table = rollouts();
  std::vector<BoundChain> chains =
      bound_chains(table, assumptions(), {{{"language", "en"}}, {{"language", "de"}}}, 0.05, 1);
  Diagnosis diagnosis = diagnose(table);
  CertificateInputs inputs;
  Page() {
    inputs.diagnosis = &diagnosis;
    inputs.commands = {"driftgate drift a b --certificate c.md"};
    inputs.code_version = "1.2.3";
    inputs.device = "cpu";
  }
  std::string text() {
    inputs.table = &table;
    inputs.chains = &chains;
    return certificate_markdown(inputs);
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a certificate tells what was measured, every link, what it means and how to make it again") {
  Page page;
  const std::string text = page.text();
  for (const char* heading :
       {"# Drift certificate: int8 against f32", "## In short", "## What was measured",
        "## The bound chain on the corpus", "## Slices, the worst first", "## What each figure means",
        "## What is unchecked", "## How to make this page again"}) {
    CAPTURE(heading);
    CHECK(has(text, heading));
  }
  CHECK(has(text, "| capture | sha256:aa | sha256:bb |"));
  CHECK(has(text, "1,920 rows (token positions) of 120 sequences"));
  for (const BoundLink& link : page.chains.front().links) {
    CAPTURE(link.name);
    CHECK(has(text, "| " + std::to_string(link.number) + " | " + link.name + " |"));
    CHECK(has(text, "**" + std::to_string(link.number) + " " + link.name + ".** "));
    CHECK_FALSE(link_meaning(link.name).empty());
  }
  const auto& links = page.chains.front().links;
  const auto best = std::ranges::find(links, "sequence_best", &BoundLink::name);
  REQUIRE(best != links.end());
  CHECK(has(text, "Taken from " + best->from + "."));
  CHECK(has(text, "driftgate drift a b --certificate c.md\n"));
  CHECK(has(text, "driftgate 1.2.3"));
  CHECK(has(text, "- score norm within score_norm_max — under policy_gradient, policy_gradient_sequence.\n"));
  CHECK(has(text, "support of p inside that of q (checked)"));
  CHECK_FALSE(has(text, "- support of p inside"));
  CHECK_FALSE(has(text, "- every reward lies"));
  CHECK(has(text, "- a span of at most this value on every reachable prefix — under inversion.\n"));
}

TEST_CASE("the slices of a certificate are ranked by the worst, under the corpus") {
  Page page;
  const std::string text = page.text();
  const auto corpus = text.find("| corpus | 120 |"), de = text.find("| language=de | 60 |");
  REQUIRE(corpus != std::string::npos);
  REQUIRE(de != std::string::npos);
  CHECK(corpus < de);
  CHECK(de < text.find("| language=en | 60 |"));
}

TEST_CASE("a certificate shows the drift beside its noise floor") {
  Page page;
  auto noise = make::table();
  for (int i = 0; i < 60; ++i) make::append(noise, {.tv = 0.002, .slices = {{"language", "de"}}});
  page.inputs.floors.inf.table = &noise;
  add_floor_values(page.chains, page.inputs.floors, assumptions());
  const std::string text = page.text();
  CHECK(has(text, "| link | name | value | limit | floor of K_inf | assumption | method |"));
  CHECK(has(text, "Noise floor of K_inf: "));
  CHECK_FALSE(has(text, "Its captures"));
  noise.train.file_digest = "sha256:11", noise.inf.file_digest = "sha256:22";
  CHECK(has(page.text(), "Its captures: sha256:11 and sha256:22.\n"));
  std::istringstream lines(text);
  std::string line, tv;
  while (std::getline(lines, line)) {
    if (line.find("| 1 | tv_measured |") == 0) tv = line;
  }
  CHECK(has(tv, "| 0.0125 |"));
  CHECK(has(tv, "| 0.002 |"));
}

TEST_CASE("a refused chain is said first, and no figure of it is shown") {
  Page page;
  page.table.inf.sampling_filter = "top_p=0.9";
  page.chains = bound_chains(page.table, assumptions(), {}, 0.05, 1);
  const std::string text = page.text();
  CHECK(has(text, "**There is no certificate**: a capture was taken after the sampling filter 'top_p=0.9'"));
  CHECK_FALSE(has(text, "## The bound chain"));
  CHECK_FALSE(has(text, "tv_measured"));
}

TEST_CASE("a page without a bound of whole responses says why") {
  Page page;
  // Too few for resampling, and one without the tokens that an exact limit takes.
  page.table.sequences.resize(30), page.table.infos.resize(30);
  page.table.sequences.front().target = {};
  page.chains = bound_chains(page.table, assumptions(), {}, 0.05, 1);
  const auto sum = std::ranges::find(page.chains[0].links, "sequence_tv", &BoundLink::name);
  REQUIRE(sum != page.chains[0].links.end());
  CHECK(has(page.text(), "- Whole responses: no bound, since " + sum->method + ".\n"));
  page.table.inf.token_source = page.table.train.token_source = "corpus";
  page.chains = bound_chains(page.table, assumptions(), {}, 0.05, 1);
  CHECK(has(page.text(), "no bound, since these tokens were not sampled by K_inf"));
}

TEST_CASE("a broken assumption is told as contradicted by the data") {
  Page page;
  page.table.infos[3].reward = 7;
  page.chains = bound_chains(page.table, assumptions(), {}, 0.05, 1);
  CHECK(has(page.text(),
            "- **Contradicted by the data**: every reward lies between the contract's reward.min and "
            "reward.max — nothing is proven by reward.\n"));
}

TEST_CASE("names from outside cannot write Markdown or HTML into the page") {
  CHECK(markdown_text("a|b*c`d[e]\n#<b>&\x1b") == "a\\|b\\*c\\`d\\[e\\] \\#&lt;b>&amp; ");
  Page page;
  page.table.inf.kernel = "x|y\n# Approved <script>";
  const std::string text = page.text();
  CHECK_FALSE(has(text, "<script>"));
  CHECK_FALSE(has(text, "\n# Approved"));
  page.inputs.commands = {"a\n```\nb"};
  CHECK(has(page.text(), "a?????b\n"));
}

TEST_CASE("a certificate says how many rows a device left to the CPU") {
  Page page;
  page.inputs.device = "cuda";
  page.table.rows_on_cpu = 0;
  CHECK(has(page.text(), "evaluated on cuda."));
  page.table.rows_on_cpu = 1'003;
  CHECK(has(page.text(), "evaluated on cuda, 1,003 of them on the CPU."));
}
