#include "tests/simulation/referee_worlds.hpp"

#include <algorithm>

#include "tests/simulation/referee_laws.hpp"

namespace driftgate::simulation {

namespace referee {
namespace {

using Worlds = std::vector<RefereeWorld>;

constexpr std::uint32_t kCut = 2048;  // of Pareto lengths

ChanceByLength constant(double chance) {
  return [chance](std::uint32_t) { return chance; };
}

/// `rows` rows of `value`, added one after another, so that the sum is rounded as often.
Atom added(double chance, std::uint32_t rows, double value, double row_limit) {
  Atom out = even(chance, rows, value, row_limit);
  out.sequence.sum = 0;
  for (std::uint32_t row = 0; row < rows; ++row) out.sequence.sum += value;
  return out;
}

void tie_length_to_drift(Worlds& out) {
  out.push_back(of_atoms(
      {"long_hold_it", "A weight by tokens follows few long sequences, one by sequences misses them.", 200,
       0.1, 0.1},
      {even(0.04, 200, 0.3, 0.1), even(0.96, 8, 0, 0.1)}));
  out.push_back(of_atoms(
      {"short_hold_it", "Drift in short sequences all but vanishes among tokens and not among sequences.",
       200, 0.1, 0.1},
      {even(0.04, 2, 0.3, 0.1), even(0.96, 200, 0, 0.1)}));
  out.push_back(row_by_row(
      {"longer_is_worse", "Numerator and denominator of the ratio rise together, which skews it.", 400, 0.25,
       0.02},
      between(1, 400), [](std::uint32_t rows) { return 0.1 * (rows / 400.0) * (rows / 400.0); }, 0.5));
  out.push_back(row_by_row(
      {"shorter_is_worse", "Few short sequences have large shares on a coarse lattice.", 400, 0.25, 0.05},
      between(1, 400), [](std::uint32_t rows) { return 1.0 / (rows + 1); }, 0.5));
  out.push_back(row_by_row(
      {"step_at_64", "A regression of drift on length is wrong at a step.", 127, 0.25, 0.02},
      between(16, 127), [](std::uint32_t rows) { return rows < 64 ? 0.005 : 0.05; }, 0.5));
  std::vector<Atom> one_each;
  for (std::uint32_t rows = 5; rows <= 60; ++rows) one_each.push_back(atom(1.0 / 56, rows, 1, 0.5));
  out.push_back(
      of_atoms({"one_row_each", "The numerator is constant, so that only the lengths vary.", 60, 0.25, 0.025},
               std::move(one_each)));
  out.push_back(of_atoms(
      {"equal_shares", "Every sequence has exactly the share of the limit: residuals are zero or rounding.",
       2000, 0.25, 0.024},
      {atom(0.9, 20, 1, 0.5), atom(0.09, 200, 10, 5), atom(0.01, 2000, 100, 50)}));
}

void stretch_lengths(Worlds& out) {
  out.push_back(row_by_row(
      {"pareto_lengths", "Lengths of almost infinite variance are cut far out at L_max.", kCut, 0.25, 0.03},
      pareto(8, 1.1, kCut), constant(0.02), 0.5));
  out.push_back(all_or_none(
      {"pareto_all_or_none", "One long sequence, wrong or right as a whole, moves the figure of all rows.",
       kCut, 0.25, 0.1},
      pareto(8, 1.1, kCut), constant(0.05), 0.5));
  out.push_back(all_or_none(
      {"pareto_wrong_at_cut", "Only answers that ran to L_max are wrong, one in four hundred and fifty.",
       kCut, 0.25, 0.1},
      pareto(8, 1.1, kCut), [](std::uint32_t rows) { return rows == kCut ? 1.0 : 0.0; }, 0.5));
  out.push_back(
      row_by_row({"all_longest", "The length does not vary at all and equals L_max.", 256, 0.25, 0.01},
                 always(256), constant(0.02), 0.5));
  out.push_back(of_atoms(
      {"far_below_longest", "L_max is known only loosely: no sequence comes near it.", 4096, 0.25, 0.2},
      {atom(0.05, 8, 4, 2), atom(0.05, 16, 8, 4), atom(0.45, 8, 0, 0), atom(0.45, 16, 0, 0)}));
  out.push_back(of_atoms(
      {"rare_longest", "Most samples lack the one sequence in ten thousand that holds most of the drift.",
       4096, 0.25, 0.05},
      {atom(0.0001, 4096, 4096, 4096), atom(0.05, 16, 2, 1), atom(0.9499, 16, 0, 0)}));
  out.push_back(
      of_atoms({"thousandfold_bad", "Half of all rows are in one sequence of a thousand, which drifts.", 8000,
                0.25, 0.1},
               {atom(0.001, 8000, 2400, 1200), atom(0.999, 8, 0, 0)}));
  out.push_back(
      of_atoms({"thousandfold_clean", "Samples without the one long clean sequence show twice the share.",
                8000, 0.25, 0.1},
               {atom(0.001, 8000, 0, 0), atom(0.0999, 8, 4, 2), atom(0.8991, 8, 0, 0)}));
  out.push_back(
      of_atoms({"thousandfold_either",
                "The few long sequences, half of them wrong, decide the ratio both ways.", 8000, 0.5, 0.5},
               {atom(0.001, 8000, 8000, 8000), atom(0.001, 8000, 0, 0), atom(0.998, 8, 0, 0)}));
}

void break_rarely(Worlds& out) {
  const auto catastrophe = [&](std::string_view name, double share, std::uint32_t wrong, std::uint32_t usual,
                               std::string_view why) {
    out.push_back(of_atoms({name, why, std::max(wrong, usual), 0.5, 0.5},
                           {atom(share, wrong, wrong, wrong), atom(1 - share, usual, 0, 0)}));
  };
  catastrophe("catastrophe_1_in_1000", 0.001, 32, 32,
              "Below three thousand sequences a sample often holds no catastrophe.");
  catastrophe("catastrophe_1_in_200", 0.005, 32, 32,
              "Below six hundred sequences the variance of a sample is often zero.");
  catastrophe("catastrophe_1_in_50", 0.02, 32, 32,
              "The number of events is small and its distribution skewed.");
  catastrophe("catastrophe_runs_to_longest", 0.005, 1024, 16,
              "A broken kernel never stops: the wrong sequences are the longest.");
  catastrophe("catastrophe_stops_at_once", 0.02, 1, 64,
              "A broken kernel stops at once: whole sequences are wrong, hardly any rows.");
  out.push_back(of_atoms(
      {"hidden_catastrophe", "All others are equal, so that a sample without the catastrophe looks certain.",
       16, 0.25, 0.1},
      {atom(0.005, 16, 16, 16), atom(0.995, 16, 1, 0.5)}));
  out.push_back(of_atoms(
      {"few_are_clean", "Skew to the left: a sample without clean sequences lies above the truth, surely.",
       16, 0.1, 0.1},
      {even(0.98, 16, 0.125, 0.1), even(0.02, 16, 0, 0.1)}));
  out.push_back(
      of_atoms({"nearly_all_wrong", "The figure is at the upper end of its range, with skew to the left.", 16,
                0.5, 0.5},
               {even(0.99, 16, 1, 0.5), even(0.01, 16, 0, 0.5)}));
  out.push_back(row_by_row(
      {"single_rows", "With one row each, every figure is one binomial share on a lattice.", 1, 0.5, 0.5},
      always(1), constant(0.05), 1));
  out.push_back(of_atoms(
      {"coin", "Two values at the ends of the range have the largest variance there is.", 16, 0.5, 0.5},
      {even(0.5, 16, 1, 0.5), even(0.5, 16, 0, 0.5)}));
}

void tie(Worlds& out) {
  out.push_back(
      of_atoms({"two_near_values", "Two values 2^-10 apart leave a variance of a millionth of the square.",
                16, 0.125, 0.125},
               {even(0.5, 16, 0.125, 0.125), even(0.5, 16, 0.125 + 0x1p-10, 0.125)}));
  out.push_back(
      of_atoms({"all_equal", "There is no variance at all.", 16, 0.1, 0.02}, {atom(1, 16, 2, 0.5)}));
  out.push_back(of_atoms({"nothing_drifts", "Every figure is 0, also a limit of 0 is kept.", 16, 0.1, 0.1},
                         {even(0.5, 8, 0, 0.1), even(0.5, 16, 0, 0.1)}));
  out.push_back(of_atoms({"all_wrong", "Every figure is 1, and nothing is above it.", 16, 0.5, 0.5},
                         {even(0.5, 8, 1, 0.5), even(0.5, 16, 1, 0.5)}));
  out.push_back(of_atoms(
      {"ties", "Three in ten lie exactly at x, which is not above it.", 16, 0.125, 0.125},
      {even(0.3, 16, 0.125, 0.125), even(0.04, 16, 0.125 + 0x1p-40, 0.125), even(0.66, 16, 0.0625, 0.125)}));
  std::vector<Atom> decimal;
  for (const std::uint32_t rows : {3U, 6U, 7U, 10U, 12U, 19U}) {
    decimal.push_back(added(0.16, rows, 0.1, 0.1));
    decimal.push_back(added(0.04 / 6, rows, 0.2, 0.1));
  }
  out.push_back(of_atoms(
      {"decimal_ties",
       "All values of a sequence equal x, and their sum, rounded at each row, divided by the rows may not.",
       19, 0.1, 0.1},
      std::move(decimal)));
  out.push_back(
      of_atoms({"within_1e-12", "Values differ from x by 1e-12, so that sums of squares lose their variance.",
                16, 0.1, 0.1},
               {even(0.03, 16, 0.1 + 1e-12, 0.1), even(0.97, 16, 0.1 - 1e-12, 0.1)}));
  out.push_back(
      of_atoms({"tiny_values", "Squares of the values are below the smallest double.", 16, 2e-170, 2e-170},
               {even(0.25, 16, 3e-170, 2e-170), even(0.75, 16, 1e-170, 2e-170)}));
}

void depend_within(Worlds& out) {
  out.push_back(
      all_or_none({"all_or_none", "Rows of a sequence are one observation, not 256.", 256, 0.25, 0.1},
                  always(256), constant(0.03), 0.5));
  out.push_back(sticky_rows(
      {"sticky_rows", "Runs of ten rows: rows are neither independent nor one observation.", 128, 0.25, 0.05},
      128, 0.03, 0.9, 0.5));
  out.push_back(growing_rows(
      {"growing", "Drift grows along positions, so that a prefix or a random row misjudges a sequence.", 40,
       0.3, 0.2},
      power_drift(0.5, 4), Lengths{{{10, 0.5}, {40, 0.5}}, [](stages::Random& random) {
                                     return random.below(2) == 0 ? 10U : 40U;
                                   }}));
  std::vector<Atom> late;
  for (std::uint32_t rows = 10; rows <= 200; ++rows) {
    const std::uint32_t last = (rows + 19) / 20;
    late.push_back(atom(0.3 / 191, rows, last, 0.5 * last));
    late.push_back(atom(0.7 / 191, rows, 0, 0));
  }
  out.push_back(
      of_atoms({"last_twentieth", "Only the last twentieth of a sequence drifts, rounded up to whole rows.",
                200, 0.25, 0.03},
               std::move(late)));
}

void skew(Worlds& out) {
  const auto log_normal = [&](std::string_view name, double variation, std::string_view why) {
    out.push_back(
        even_rows({name, why, 60, 0.05, 0.05}, {{1, log_normal_drift(0.02, variation), between(5, 60)}}));
  };
  log_normal("log_normal_0.5", 0.5, "Mild skew is the usual case, in which a method has no excuse.");
  log_normal("log_normal_1.3", 1.3, "Skew slows the central limit theorem down.");
  log_normal("log_normal_2", 2, "Heavy skew makes the sample variance small when the sample mean is small.");
  out.push_back(even_rows({"log_normal_long_tail",
                           "The tail of the drift sits in sequences thirty times as long.", 500, 0.05, 0.05},
                          {{1, log_normal_drift(0.02, 2), between(10, 20), Part::Step{0.05, always(500)}}}));
  out.push_back(even_rows(
      {"log_normal_short_tail", "The tail of the drift sits in the shortest sequences.", 200, 0.05, 0.05},
      {{1, log_normal_drift(0.02, 2), always(200), Part::Step{0.05, always(4)}}}));
  out.push_back(even_rows(
      {"two_languages", "A language of 3 % drifts ten times as much and needs three times the tokens.", 180,
       0.05, 0.05},
      {{0.97, log_normal_drift(0.01, 0.5), between(20, 60)},
       {0.03, log_normal_drift(0.1, 0.5), between(60, 180)}}));
  out.push_back(even_rows(
      {"nearly_zero", "Values spread over eighty powers of ten, and their mean is set by the largest.", 60,
       0.1, 0.1},
      {{1, power_drift(1, 200), between(5, 60)}}));
  out.push_back(even_rows(
      {"pareto_drift", "Without the end of the range at 1 the drift would have no variance.", 60, 0.02, 0.02},
      {{1, pareto_drift(0.001, 1.2), between(5, 60)}}));
}

Worlds build() {
  Worlds out;
  tie_length_to_drift(out);
  stretch_lengths(out);
  break_rarely(out);
  tie(out);
  depend_within(out);
  skew(out);
  return out;
}

}  // namespace
}  // namespace referee

std::vector<RefereeSequence> RefereeWorld::draw(stages::Random& random, std::size_t n) const {
  std::vector<RefereeSequence> out(n);
  std::generate(out.begin(), out.end(), [&] { return draw_one(random); });
  return out;
}

const std::vector<RefereeWorld>& referee_worlds() {
  static const std::vector<RefereeWorld> worlds = referee::build();
  return worlds;
}

const RefereeWorld* referee_world(std::string_view name) {
  const auto at = std::ranges::find(referee_worlds(), name, &RefereeWorld::name);
  return at == referee_worlds().end() ? nullptr : &*at;
}

}  // namespace driftgate::simulation
