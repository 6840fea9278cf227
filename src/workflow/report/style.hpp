// How reports and their pictures look.
#pragma once

namespace flashmoe::workflow {

// Shapes of the charts; colours are variables of what is around them.
inline constexpr const char* chart_style = R"css(
svg text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:var(--faint)}
svg .strong{fill:var(--ink);font-weight:600}
svg .value{fill:var(--ink);font-weight:600;font-variant-numeric:tabular-nums}
svg .inside{fill:#fff;font-weight:600}
svg .halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg .grid{stroke:var(--grid)}
svg .axis{stroke:var(--faint)}
svg .threshold{stroke:var(--faint);stroke-dasharray:5 4}
svg .roof{stroke:var(--ink);stroke-width:2}
svg .median{stroke:var(--ink);stroke-width:2.5}
svg .cross{stroke:var(--bad);stroke-width:2.2;fill:none}
svg .clear{fill:transparent}
svg .step,svg .whisker{fill:none;stroke-width:2.2;stroke:var(--kind)}
svg .dot,svg .bar{fill:var(--kind)}
svg .ring{fill:var(--card);stroke:var(--kind);stroke-width:1.8}
svg .undecided{stroke-dasharray:2.5 2}
svg .sample{fill:var(--kind);opacity:.55}
svg .half{fill:var(--kind);opacity:.3}
svg .before{fill:var(--faint)}
.measured{--kind:var(--measured)}.virtual{--kind:var(--virtual)}.predicted{--kind:var(--predicted)}
.rehearsal{--kind:var(--rehearsal)}.none{--kind:var(--faint)}
.part0{fill:#3b6fb6}.part1{fill:#b5562c}.part2{fill:#3d8a5f}.part3{fill:#8a4fa3}
.part4{fill:#9a7b1d}.part5{fill:#b03a5b}.part6{fill:#2f8490}.part7{fill:#6b7480}
)css";

inline constexpr const char* light_colours =
    "--page:#f5f6f8;--card:#ffffff;--ink:#1c2430;--faint:#5b6675;--grid:#e3e7ec;--line:#d5dae1;--good:#1a7f4b;"
    "--bad:#b3261e;--warn:#8a5a00;--measured:#1a7f4b;--virtual:#2a62b8;--predicted:#7a3fb0;--rehearsal:#757575;"
    "--hot:#d9480f;";
inline constexpr const char* dark_colours =
    "--page:#10141a;--card:#181e27;--ink:#e8ecf2;--faint:#9aa6b5;--grid:#28313d;--line:#333e4c;--good:#5fd39a;"
    "--bad:#ff8a80;--warn:#f0c060;--measured:#5fd39a;--virtual:#7fb0ff;--predicted:#c79bf2;--rehearsal:#a9b0b8;"
    "--hot:#ff8a50;";

inline constexpr const char* page_style = R"css(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:980px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:28px;line-height:1.2;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:19px;margin:0 0 4px}
h3{font-size:15px;margin:20px 0 6px;overflow-wrap:anywhere}
p{margin:6px 0}
a{color:inherit}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:20px 22px;margin:18px 0}
nav{margin:14px 0 0;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:14px}
.note{color:var(--faint);font-size:13.5px;overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:18px 0 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.card b{display:block;font-size:24px;line-height:1.2;font-variant-numeric:tabular-nums}
.card small{color:var(--faint);font-size:13px;display:block;overflow-wrap:anywhere}
.badge{display:inline-block;border:1px solid var(--kind);color:var(--kind);border-radius:9px;padding:0 8px;font-size:12.5px;line-height:1.65;overflow-wrap:anywhere}
.badge::before{content:"";display:inline-block;width:8px;height:8px;border-radius:50%;background:var(--kind);margin-right:6px}
.fate{font-weight:600;white-space:nowrap}
.arrow{white-space:nowrap}
.kept,.holds,.ok{color:var(--good)}.refused,.fails,.error,.could_not_run{color:var(--bad)}.open,.inconclusive,.warning{color:var(--warn)}.left{color:var(--faint)}
svg{display:block;max-width:100%;height:auto;margin:10px 0}
.narrow{display:none}
table{border-collapse:collapse;width:100%;font-size:14px;margin:10px 0}
th{font-weight:600;text-align:left;color:var(--faint);font-size:13px;border-bottom:1px solid var(--line);padding:5px 10px 5px 0;vertical-align:bottom}
td{border-bottom:1px solid var(--grid);padding:6px 10px 6px 0;vertical-align:top;overflow-wrap:anywhere}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;padding-right:14px}
code,.source{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12.5px}
.source{overflow-x:auto}
.source table{width:auto;min-width:100%;font-size:12px}
.source td,.source th{padding:1px 12px 1px 0;border:0;white-space:pre;overflow-wrap:normal}
.source .cold td{color:var(--faint)}
.source .heat{background:linear-gradient(90deg,color-mix(in srgb,var(--hot) 38%,transparent) var(--share),transparent var(--share))}
.source .gap td{color:var(--faint);line-height:1}
td code{white-space:nowrap}
.rows td:first-child:not(.n){min-width:104px}
ul{padding-left:20px;margin:8px 0}
li{overflow-wrap:anywhere;margin:3px 0}
details>summary{cursor:pointer;color:var(--faint);margin-top:8px}
footer{color:var(--faint);font-size:13px}
@media(max-width:640px){
main{padding:18px 12px 40px}h1{font-size:22px}section{padding:16px 14px}
.wide{display:none}.narrow{display:block}
.rows thead{display:none}.rows tr{display:block;border-bottom:1px solid var(--line);padding:8px 0}
.rows td{display:flex;gap:10px;border:0;padding:2px 0;text-align:left;white-space:normal}
.rows td::before{content:attr(data-label);color:var(--faint);flex:0 0 84px;font-size:13px}
.rows td>span,.rows td>data,.rows td>code{min-width:0;flex:1;overflow-wrap:anywhere}
.rows td>.badge,.rows td>.fate{flex:0 1 auto}
}
@media print{section{break-inside:avoid}}
)css";

}  // namespace flashmoe::workflow
