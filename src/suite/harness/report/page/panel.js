// What is shown of one case when it is opened: made at that moment, from its line of the details.

/// A section with a heading; none where there is nothing to show.
function section(title, ...children) {
  const shown = children.filter(Boolean);
  return shown.length ? element("section", {}, element("h2", {}, title), ...shown) : null;
}

/// A table of rows of cells; cells of columns in `numbers` are flush right.
function table(headings, rows, numbers = []) {
  if (rows.length === 0) return null;
  const kind = (i) => numbers.includes(i) ? { class: "number" } : {};
  const head = element("tr", {}, ...headings.map((text, i) => element("th", { scope: "col", ...kind(i) }, text)));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => element("td", kind(i), cell))));
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function list(sentences) {
  return sentences.length ? element("ul", {}, ...sentences.map((text) => element("li", {}, text))) : null;
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return shown.length ? element("dl", {}, ...shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])) : null;
}

function place(at) {
  return at ? `[${at.coordinates.join(",\u200b")}]` : "";
}

function value(x) {
  return typeof x === "number" && !Number.isInteger(x) ? short(x, 6) : String(x);
}

function metrics(now, before) {
  const old = new Map((before ? before.metrics || [] : []).map((metric) => [metric.name, metric.value]));
  const rows = (now.metrics || []).map(({ name, value, limit }) => {
    const within = limit === undefined ? "" : asNumber(value) <= asNumber(limit) ? "within" : "above";
    const cells = [name, short(asNumber(value)), limit === undefined ? "" : short(asNumber(limit)), within];
    return before ? [...cells, old.has(name) ? short(asNumber(old.get(name))) : ""] : cells;
  });
  return section("Metrics", table(["metric", "value", "limit", "", ...(before ? ["old value"] : [])], rows, [1, 2, 4]));
}

/// The study's three metrics against their thresholds: the verdict vector.
function vector(report) {
  if (!report.metrics) return null;
  const { vector, thresholds, rms, worst_relative } = report.metrics;
  const of = (worst) => worst ? short(asNumber(worst.value)) : "0";
  const values = [short(asNumber(rms)), of(report.worst_absolute), of(worst_relative)];
  const names = [["RMS", "rms"], ["max abs", "absolute"], ["max rel", "relative"]];
  const rows = names.map(([name, key], i) => [vector[i] ? "1" : "0", name, values[i], short(asNumber(thresholds[key]))]);
  return section(`Verdict vector [${vector.map(Number).join(" ")}]`, table(["", "metric", "value", "threshold"], rows, [2, 3]));
}

function worst(report) {
  const metrics = report.metrics || {};
  const all = [["max abs", report.worst_absolute], ["max rel", metrics.worst_relative], ["max eps", metrics.worst_epsilon], ["max ulp", metrics.worst_ulp], ["ratio", metrics.worst_ratio]];
  const row = ([name, { value: v, at }]) => [name, short(asNumber(v)), place(at), at ? value(at.result) : "", at ? value(at.reference) : ""];
  return section("Worst elements", table(["metric", "value", "at", "result", "reference"], all.filter(([, found]) => found).map(row), [1, 3, 4]));
}

function first(report) {
  const rows = (report.first || []).map((at) => [place(at), value(at.result), value(at.reference)]);
  return section("First mismatches", table(["at", "result", "reference"], rows, [1, 2]));
}

function power(report) {
  if (!report.power) return null;
  const { found = [], missed = [], unchanged = [], smallest_error, zero_passes, nonzero } = report.power;
  const words = (names) => names.join(", ");
  return section("What the comparison could tell", facts([
    ["would fail", words(found)],
    ["would pass", words(missed)],
    ["leave the reference as it is", words(unchanged)],
    ["smallest relative error that fails", smallest_error === null || smallest_error === undefined ? "" : short(asNumber(smallest_error))],
    ["zeros would pass at", nonzero ? `${grouped(zero_passes)} of ${grouped(nonzero)} elements` : ""],
  ]));
}

/// What a check took for granted, its bound, and the elements nearest to theirs or beyond.
function checked({ problem, arithmetic, confidence, exactness, report }) {
  if (!report) return [];
  const { bound, worst: largest, first: beyond, shape, dtype, zero_passes, nonzero, smallest_error } = report;
  const terms = [bound.gamma, bound.relative, bound.floor].map((x) => short(asNumber(x)));
  const row = (at) => [place(at), value(at.result), value(at.reference), short(asNumber(at.bound)), short(asNumber(at.ratio))];
  const rows = (list) => table(["at", "result", "exact", "bound", "error / bound"], list.filter(Boolean).map(row), [1, 2, 3, 4]);
  const exact = exactness && exactness.model ? (exactness.differing === 0 ? "yes" : `${grouped(exactness.differing)} elements differ`) : "";
  return [
    section("Check", facts([
      ["of", problem],
      ["result", `${dtype}, [${shape.join(", ")}]`],
      ["elements beyond their bounds", `${grouped(report.mismatches)} of ${grouped(report.elements)}`],
      ["bound", `${terms[0]} S + ${terms[1]} |r| + ${terms[2]}`],
      ["for", arithmetic],
      ["bound is", confidence],
      ["bit-exact", exact],
      ["smallest relative error that fails", short(asNumber(smallest_error))],
      ["zeros would pass at", nonzero ? `${grouped(zero_passes)} of ${grouped(nonzero)} elements` : ""],
    ])),
    section("Nearest to its bound", rows([largest])),
    section("First mismatches", rows(beyond)),
  ];
}

function cause(report) {
  return report.cause ? section("Likely cause", facts([["kind", report.cause.kind.replaceAll("_", " ")], ["evidence", report.cause.evidence], ["where", report.cause.region || ""]])) : null;
}

function histograms(report) {
  const { relative, epsilon, ratio } = report.histograms || {};
  return [relative, epsilon, ratio].filter(Boolean).map((h) => section(`Histogram: ${h.measure}`, histogram(h)));
}

function details({ details: found, report }) {
  if (!found) return [];
  const seen = found.magnitudes.reduce((sum, band) => sum + band.elements, 0);
  const all = report ? (report.report || report).elements : seen;
  const sample = element("p", { class: "quiet" }, seen < all ? `${grouped(seen)} of ${grouped(all)} elements were sampled.` : "Solid: largest error. Dashed: mean. Red: powers of two with mismatches.");
  const chart = magnitudes(found.magnitudes);
  return [
    chart && section("Error against magnitude", chart, sample),
    found.map && section("Where mismatches lie", heatMap(found.map), element("p", { class: "quiet" }, `Blocks of ${found.map.block[0]} by ${found.map.block[1]} elements.`)),
  ];
}

function summary(now, report) {
  const tolerance = report.rtol === undefined ? "" : `rtol ${short(asNumber(report.rtol))}${report.by_binade ? " of the binade" : ""}, atol ${short(asNumber(report.atol))}`;
  const formats = report.result_dtype ? `${report.result_dtype} against ${report.reference_dtype}, [${(report.shape || []).join(", ")}]` : "";
  const differ = report.elements === undefined ? "" : `${grouped(report.mismatches)} of ${grouped(report.elements)}`;
  const axes = now.axes.map(([name, text]) => [name, text]);
  return section("Case", facts([["outcome", `${now.outcome}, expected: ${now.expected}`], ...axes, ["groups", (now.groups || []).join(", ")], ["device", now.device], ["tensors", formats], ["tolerance", tolerance], ["mismatches", differ], ["seconds", short(now.seconds)]]));
}

function command(text) {
  if (!text) return null;
  const copy = element("button", { type: "button" }, "Copy");
  copy.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Select it and copy"; }));
  const shown = section("To reproduce", element("pre", {}, text), element("p", {}, copy));
  shown.classList.add("whole");
  return shown;
}

/// Everything about a case; `before` is its result in the old run of two, `loosened` what that demanded and this does not.
function panel(now, before, loosened) {
  const report = now.report || {};
  // Findings are among the reasons; the cause has a section of its own.
  const told = report.report ? {} : report;
  const reasons = (now.reasons || []).filter((text) => !report.cause || text !== report.cause.evidence);
  const why = [...(loosened || []).map((text) => `loosened: ${text}`), ...reasons, ...(now.warnings || []).map((text) => `warning: ${text}`)];
  const sections = [section("Why", list(why)), summary(now, report), cause(report), metrics(now, before), vector(told), worst(told), first(told), ...checked(report), ...details(now), ...histograms(report), power(report), command(now.command)];
  return element("div", { class: "case-panel" }, ...sections.filter(Boolean));
}
