#include "stages/report/certificate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

constexpr std::size_t kSlicesShown = 50;

std::string figure_or_dash(const std::optional<double>& value) {
  return value && !std::isnan(*value) ? figure(*value) : "–";
}

std::string stated(const std::string& text) {
  return text.empty() ? "not stated" : markdown_text(text);
}

std::string row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string head(const std::vector<std::string>& cells) {
  std::string out = row(cells) + "|";
  for (std::size_t i = 0; i < cells.size(); ++i) out += " --- |";
  return out + "\n";
}

std::string place(const schema::SliceWhere& where) {
  return where.empty() ? "corpus" : markdown_text(schema::slice_text(where));
}

const BoundLink* named(const BoundChain& chain, std::string_view name) {
  const auto found = std::ranges::find(chain.links, name, &BoundLink::name);
  return found == chain.links.end() ? nullptr : &*found;
}

/// The link on the mean tv of tokens: as measured, else the best that is known.
const BoundLink* token_tv(const BoundChain& chain) {
  for (const char* name : {"tv_measured", "tv_upper", "tv_from_kl"}) {
    if (const BoundLink* link = named(chain, name)) return link;
  }
  return nullptr;
}

std::string confidence(const CertificateInputs& in) {
  return percent(1 - in.alpha);
}

std::string title(const CertificateInputs& in) {
  return fmt::format("# Drift certificate: {} against {}\n\n", stated(in.table->inf.kernel),
                     stated(in.table->train.kernel));
}

/// One sentence for each link that decides a release.
std::string in_short(const CertificateInputs& in) {
  const BoundChain& corpus = in.chains->front();
  std::string out = "## In short\n\n";
  if (!corpus.refused.empty()) {
    return out + fmt::format("**There is no certificate**: {}.\n\n", markdown_text(corpus.refused));
  }
  const auto say = [&](const char* name, const std::string& before, const std::string& after) {
    const BoundLink* link = named(corpus, name);
    if (link == nullptr || !link->value) return;
    const std::string limit =
        link->upper ? fmt::format(" at the measured figures and at most **{}** with {} confidence",
                                  figure(*link->upper), confidence(in))
                    : std::string{};
    out += fmt::format("- {} **{}**{}{}. It rests on: {} ({}).\n", before, figure(*link->value), after, limit,
                       markdown_text(link->assumption), to_string(link->status));
  };
  if (const BoundLink* tv = token_tv(corpus)) {
    say(tv->name.c_str(),
        tv->name == "tv_measured" ? "Next token: the mean total variation between the kernels is"
                                  : "Next token: the mean total variation between the kernels is at most",
        "");
  }
  say("sequence_best", "Whole responses: the total variation is at most", "");
  if (const BoundLink* link = named(corpus, "tv_sequence"); link != nullptr && link->upper)
    say("tv_sequence", "Whole responses, estimated from the sampled tokens: the total variation is", "");
  if (named(corpus, "sequence_best") == nullptr) {
    const BoundLink* sum = named(corpus, "sequence_tv");
    const bool sampled = sum != nullptr && sum->status != AssumptionStatus::broken;
    out +=
        "- Whole responses: no bound, since " +
        (sampled ? markdown_text(sum->method)
                 : std::string("these tokens were not sampled by K_inf without filters; capture rollouts of "
                               "K_inf for one")) +
        ".\n";
  }
  say("reward", "Reward of one token: the expectations differ by at most", "");
  say("reward_sequence", "Reward of a whole response: the expectations differ by at most", "");
  say("policy_gradient", "Policy gradient per token, uncorrected: the bias is at most", "");
  say("clip_room", "PPO clip: the room left for a policy update is", " of log-ratio");
  if (in.verdict) {
    out += fmt::format("- Contract {}: the clauses that captures can decide come to **{}**.\n",
                       markdown_text(in.contract_name), schema::to_string(*in.verdict));
  }
  if (in.diagnosis != nullptr) out += "- Diagnosis: " + markdown_text(in.diagnosis->summary) + "\n";
  return out + "\n";
}

std::string measured(const CertificateInputs& in) {
  const gpu::MeasurementTable& t = *in.table;
  std::string out = "## What was measured\n\n" + head({"", "K_train", "K_inf"});
  const auto both = [&](const char* name, const std::string& a, const std::string& b) {
    out += row({name, a, b});
  };
  both("kernel", stated(t.train.kernel), stated(t.inf.kernel));
  both("capture", stated(t.train.file_digest), stated(t.inf.file_digest));
  both("checkpoint", stated(t.train.checkpoint_digest), stated(t.inf.checkpoint_digest));
  both("corpus", stated(t.train.corpus_digest), stated(t.inf.corpus_digest));
  both("token_source", stated(t.train.token_source), stated(t.inf.token_source));
  both("sampling_filter", stated(t.train.sampling_filter), stated(t.inf.sampling_filter));
  both("temperature", figure(t.train.temperature), figure(t.inf.temperature));
  out += fmt::format(
      "\n{} rows (token positions) of {} sequences, vocabulary {}, evaluated on {}{}.{}\n",
      count_text(t.rows), count_text(t.sequences.size()), count_text(t.vocabulary), stated(in.device),
      t.rows_on_cpu > 0U ? fmt::format(", {} of them on the CPU", count_text(*t.rows_on_cpu)) : std::string{},
      t.nonfinite_rows > 0 ? fmt::format(" **{} rows are not finite.**", count_text(t.nonfinite_rows))
                           : std::string{});
  if (!in.corpus_digest.empty()) out += fmt::format("Sequences and slices: {}.\n", in.corpus_digest);
  if (!in.table_digest.empty()) out += fmt::format("Measurement table: {}.\n", in.table_digest);
  if (!in.contract_digest.empty())
    out +=
        fmt::format("Assumptions: contract {}, {}.\n", markdown_text(in.contract_name), in.contract_digest);
  for (const FloorSide side : kFloorSides) {
    const gpu::MeasurementTable* floor = in.floors.of(side).table;
    if (floor == nullptr) continue;
    out += fmt::format("Noise floor of K_{}: {} batched differently, {} rows.\n", to_string(side),
                       stated(floor->train.kernel), count_text(floor->rows));
    if (floor->train.file_digest.empty() || floor->inf.file_digest.empty()) continue;
    out += fmt::format("Its captures: {} and {}.\n", floor->train.file_digest, floor->inf.file_digest);
  }
  return out + "\n";
}

std::vector<std::string> floor_cells(const CertificateInputs& in, const BoundLink& link) {
  std::vector<std::string> cells;
  for (const FloorSide side : kFloorSides) {
    if (in.floors.of(side).table == nullptr) continue;
    const auto found = link.floors.find(std::string(to_string(side)));
    cells.push_back(found == link.floors.end() ? "–" : figure(found->second));
  }
  return cells;
}

std::string chain_table(const CertificateInputs& in) {
  const BoundChain& corpus = in.chains->front();
  std::string out = "## The bound chain on the corpus\n\n";
  out += fmt::format(
      "Each link is a theorem about the two distributions. *Value* is the bound at the measured figures; "
      "*limit* "
      "is with its one-sided {} confidence limit, clusters being sequences; a link without a limit speaks of "
      "the "
      "measured rows alone.\n\n",
      confidence(in));
  std::vector<std::string> columns = {"link", "name", "value", "limit"};
  for (const FloorSide side : kFloorSides) {
    if (in.floors.of(side).table != nullptr) columns.push_back(fmt::format("floor of K_{}", to_string(side)));
  }
  columns.insert(columns.end(), {"assumption", "method"});
  out += head(columns);
  for (const BoundLink& link : corpus.links) {
    std::vector<std::string> cells = {std::to_string(link.number), link.name, figure_or_dash(link.value),
                                      figure_or_dash(link.upper)};
    for (std::string& cell : floor_cells(in, link)) cells.push_back(std::move(cell));
    cells.emplace_back(to_string(link.status));
    cells.push_back(markdown_text(link.method) + (link.approximate ? " (approximate)" : ""));
    out += row(cells);
  }
  return out + "\n";
}

std::string meanings(const CertificateInputs& in) {
  std::string out = "## What each figure means\n\n";
  for (const BoundLink& link : in.chains->front().links) {
    out += fmt::format("**{} {}.** {}", link.number, link.name, link_meaning(link.name));
    if (!link.from.empty()) out += fmt::format(" Taken from {}.", link.from);
    std::string inputs;
    for (const auto& [name, value] : link.inputs)
      inputs += fmt::format("{}{} = {}", inputs.empty() ? "" : ", ", name, figure(value));
    if (!inputs.empty()) out += fmt::format(" From {}.", inputs);
    out += fmt::format(" Rests on: {} — *{}*.\n\n", markdown_text(link.assumption), to_string(link.status));
  }
  return out;
}

/// An assumption of several parts, one by one.
std::vector<std::string> parts_of(const std::string& assumption) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= assumption.size();) {
    const std::size_t end = std::min(assumption.find("; ", at), assumption.size());
    parts.push_back(assumption.substr(at, end - at));
    at = end + 2;
  }
  return parts;
}

std::string open_points(const CertificateInputs& in) {
  std::map<std::string, std::string> unchecked, suspicious, broken;
  for (const BoundLink& link : in.chains->front().links) {
    if (link.status == AssumptionStatus::checked) continue;
    // Which part of it is broken or suspicious, the link does not say.
    const bool broke = link.status == AssumptionStatus::broken;
    const bool known = broke || link.status == AssumptionStatus::suspicious;
    const auto parts = known ? std::vector<std::string>{link.assumption} : parts_of(link.assumption);
    for (const std::string& part : parts) {
      if (!known && part.ends_with(kCheckedPart)) continue;
      std::string& names = (broke ? broken : known ? suspicious : unchecked)[part];
      names += (names.empty() ? "" : ", ") + link.name;
    }
  }
  std::string out = "## What is unchecked\n\n";
  for (const auto& [assumption, names] : broken)
    out += fmt::format("- **Contradicted by the data**: {} — nothing is proven by {}.\n",
                       markdown_text(assumption), names);
  for (const auto& [assumption, names] : suspicious)
    out += fmt::format("- **The data speak against it, but no exact test is possible**: {} — under {}.\n",
                       markdown_text(assumption), names);
  for (const auto& [assumption, names] : unchecked)
    out += fmt::format("- {} — under {}.\n", markdown_text(assumption), names);
  out +=
      "- Rows that were not measured: maxima speak of the measured rows alone, means of the traffic that the "
      "corpus stands for.\n\n";
  return out;
}

/// What slices are ranked by: the mean tv; one without a chain before all.
double badness(const BoundChain& chain) {
  if (!chain.refused.empty()) return HUGE_VAL;
  const BoundLink* link = token_tv(chain);
  return link == nullptr || !link->value ? -1 : *link->value;
}

std::string slices(const CertificateInputs& in) {
  if (in.chains->size() < 2) return {};
  std::vector<const BoundChain*> order;
  for (std::size_t i = 1; i < in.chains->size(); ++i) order.push_back(&(*in.chains)[i]);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return badness(*a) > badness(*b); });
  order.insert(order.begin(), &in.chains->front());
  std::string out = fmt::format(
      "## Slices, the worst first\n\nBy mean total variation; each limit is at {} for its slice alone.\n\n",
      confidence(in));
  out += head({"slice", "sequences", "rows", "mean tv", "limit", "tv_from_kl", "head_tail", "reward",
               "sequence_best", "broken"});
  for (std::size_t i = 0; i < std::min(order.size(), kSlicesShown + 1); ++i) {
    const BoundChain* chain = order[i];
    const auto value = [&](const char* name) {
      const BoundLink* link = named(*chain, name);
      return link == nullptr ? std::string("–") : figure_or_dash(link->value);
    };
    const BoundLink* tv = token_tv(*chain);
    std::string broken = markdown_text(chain->refused);
    for (const BoundLink& link : chain->links) {
      if (link.status == AssumptionStatus::broken) broken += (broken.empty() ? "" : ", ") + link.name;
    }
    out +=
        row({place(chain->where), count_text(chain->sequences), count_text(chain->rows),
             tv == nullptr ? "–" : figure_or_dash(tv->value), tv == nullptr ? "–" : figure_or_dash(tv->upper),
             value("tv_from_kl"), value("head_tail"), value("reward"), value("sequence_best"), broken});
  }
  if (order.size() > kSlicesShown + 1)
    out += fmt::format("\n{} further slices are in the JSON report.\n", order.size() - kSlicesShown - 1);
  return out + "\n";
}

std::string diagnosis_section(const CertificateInputs& in) {
  if (in.diagnosis == nullptr || in.diagnosis->suspicions.empty()) return {};
  std::string out = "## Diagnosis\n\n";
  for (const Suspicion& s : in.diagnosis->suspicions) {
    out += fmt::format("- **{}** ({}): looks like {}, because {}. {}\n", to_string(s.pattern),
                       markdown_text(s.where), markdown_text(s.looks_like), markdown_text(s.because),
                       markdown_text(s.next));
  }
  return out + "\n";
}

std::string reproduce(const CertificateInputs& in) {
  std::string out = "## How to make this page again\n\n";
  if (!in.commands.empty()) {
    out += "```\n";
    for (const std::string& command : in.commands) {
      for (const char c : command) out += static_cast<unsigned char>(c) < 0x20 || c == '`' ? '?' : c;
      out += "\n";
    }
    out += "```\n\n";
  }
  out += fmt::format(
      "α = {}, seed {} for orders and resamplings, {}. The same captures give the same figures to 1e-6, and "
      "the "
      "same bytes on the same machine; `sha256sum` of a capture of one file is its digest above.\n",
      figure(in.alpha), in.seed,
      in.code_version.empty() ? "driftgate" : "driftgate " + markdown_text(in.code_version));
  if (!in.note.empty()) out += "\n" + markdown_text(in.note) + "\n";
  return out;
}

}  // namespace

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += ' ';
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("|*`[]\\#").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string certificate_markdown(const CertificateInputs& inputs) {
  std::string out = title(inputs) + in_short(inputs) + measured(inputs);
  if (inputs.chains->front().refused.empty()) {
    out += chain_table(inputs) + slices(inputs) + meanings(inputs) + open_points(inputs);
  } else {
    out += slices(inputs);
  }
  return out + diagnosis_section(inputs) + reproduce(inputs);
}

}  // namespace driftgate::stages
