#pragma once

#include <string_view>

namespace driftgate::drift {

/// The style of the page, in the colours of the daemon's page (web/src/ui/tokens.css). Its digest is in the
/// page's policy, so that nothing else on the page can bring a style.
inline constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--bg:#f6f7f9;--surface:#fff;--line:#d5dae1;--text:#16191d;--muted:#545d69;
--good:#176337;--good-bg:#e0f3e6;--bad:#a3161f;--bad-bg:#fde7e7;--warn:#7a4a00;--warn-bg:#fdf0d3;--quiet:#545d69;
--quiet-bg:#eceff3;--c0:#2456a6;--c1:#b4460a;--c2:#7b2d8b;--c3:#0f6b62}
@media (prefers-color-scheme:dark){:root{--bg:#111418;--surface:#191d23;--line:#343c47;--text:#e9ecf0;--muted:#a3adba;
--good:#86dba3;--good-bg:#143322;--bad:#ff9c9c;--bad-bg:#421a1d;--warn:#f4c26b;--warn-bg:#3a2a0c;--quiet:#a3adba;
--quiet-bg:#262d36;--c0:#7fb2ff;--c1:#ff9a5c;--c2:#dba0ea;--c3:#6fd3c6}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:70rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .6rem}
p,li,dd,h1,h3,.forest th{overflow-wrap:anywhere}td,th{overflow-wrap:break-word;max-width:22rem}
bdi{unicode-bidi:isolate}
.muted,small,figcaption{color:var(--muted)}
.chip{display:inline-block;padding:.1rem .55rem;border-radius:1rem;font-weight:600;font-size:.85rem;white-space:nowrap}
.chip.good{color:var(--good);background:var(--good-bg)}.chip.bad{color:var(--bad);background:var(--bad-bg)}
.chip.warn{color:var(--warn);background:var(--warn-bg)}.chip.quiet{color:var(--quiet);background:var(--quiet-bg)}
.card{background:var(--surface);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;margin:.6rem 0}
.card.bad{border-left:4px solid var(--bad)}.card.warn{border-left:4px solid var(--warn)}
.card h3{font-size:1rem;margin:0 0 .3rem}.card p{margin:.3rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.4rem 0}dt{color:var(--muted)}dd{margin:0}
.wide{overflow-x:auto;background:var(--surface);border:1px solid var(--line);border-radius:6px}
.wide:focus-visible{outline:2px solid var(--c0)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .7rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child>*{border-bottom:0}thead th{color:var(--muted);font-weight:600;font-size:.85rem;white-space:nowrap}
tbody th{font-weight:400}.forest tbody th{min-width:11rem}td.n,th.n{text-align:right;white-space:nowrap}
.forest td{white-space:nowrap;vertical-align:middle}.forest td.drawn{padding-top:0;padding-bottom:0}
.forest svg{display:block}.scale{display:flex;justify-content:space-between;width:360px;padding:0 8px}
figure{margin:.6rem 0;background:var(--surface);border:1px solid var(--line);border-radius:6px;padding:.6rem 1rem}
.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:.8rem}
.plot{display:block;width:100%;height:auto}.plot text{fill:var(--muted);font-size:17px}
.grid{stroke:var(--line)}.limit{stroke:var(--bad);stroke-width:2;stroke-dasharray:4 2}
.interval{stroke-width:2;stroke:var(--quiet)}.mark{fill:var(--quiet)}
.interval.good{stroke:var(--good)}.interval.bad{stroke:var(--bad)}.interval.warn{stroke:var(--warn)}
.mark.good{fill:var(--good)}.mark.bad{fill:var(--bad)}.mark.warn{fill:var(--warn)}
.curve{fill:none;stroke-width:2.5}.c0{stroke:var(--c0)}.c1{stroke:var(--c1);stroke-dasharray:9 3}
.c2{stroke:var(--c2);stroke-dasharray:3 3}.c3{stroke:var(--c3);stroke-dasharray:9 3 2 3}
.floor{stroke:var(--quiet);stroke-dasharray:1 4}.bar{fill:var(--c0)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.3rem 0 0;padding:0}
.legend li{display:flex;align-items:center;gap:.4rem}
@media print{.wide{overflow:visible}body{background:#fff}}
)";
/// Of the style's bytes, as Content-Security-Policy wants it.
inline constexpr std::string_view kPageStyleDigest = "sha256-9SW9xCLaQ8sK9L+/4aQfBSpzukLY5nG3c8JSJRlRz8g=";

}  // namespace driftgate::drift
