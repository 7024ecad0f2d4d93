// The table of cases: filters, sorting, pages. Rows are made for the page that is shown, panels when they are opened.
const PAGE = 100;
const data = JSON.parse(document.getElementById("rows").textContent);
const state = { text: "", outcome: "", change: "", group: "", axes: {}, metric: 0, column: null, descending: false, page: 0 };
const SEVERITY = ["crash", "timeout", "error", "fail", "untrusted", "pass"];
let lines = null;

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/// A number as JSON has it: infinities and NaN are strings there.
function asNumber(x) {
  return x === "inf" ? Infinity : x === "-inf" ? -Infinity : x === "nan" ? NaN : x;
}

function grouped(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

function short(x, digits = 4) {
  if (!isFinite(x)) return isNaN(x) ? "NaN" : x < 0 ? "-inf" : "inf";
  const size = Math.abs(x);
  if (x === 0 || (size >= 1e-4 && size < 1e7)) return String(Number(x.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1))))));
  return Number(x.toPrecision(digits)).toExponential().replace("e+", "e");
}

/// The newest result of a row, and a number of it.
const newest = (row) => row.results.findLast(Boolean);
const numberOf = (result, i) => { const v = result ? result.values[i] : null; return v === null || v === undefined ? null : asNumber(v); };

function columns() {
  const word = (text) => element("span", { class: `word ${text.replaceAll(" ", "-")}` }, text);
  const all = [
    { name: "case", of: (row) => row.name, cell: opener },
    { name: "outcome", of: (row) => SEVERITY.indexOf(newest(row).outcome) + (newest(row).ok ? SEVERITY.length : 0), cell: (row) => word(newest(row).outcome) },
  ];
  if (data.kind === "comparison") all.push({ name: "change", of: (row) => data.changes.indexOf(row.change), cell: (row) => word(row.change) });
  if (data.kind === "trend") all.push({ name: "runs", of: (row) => row.results.filter((r) => r && !r.ok).length, cell: course, wide: true });
  data.axes.forEach((name, i) => all.push({ name, of: (row) => row.axes[i], cell: (row) => row.axes[i] || "", wide: true }));
  const metric = data.numbers[state.metric];
  const shown = (row) => { const v = numberOf(newest(row), state.metric); return v === null ? "" : short(v); };
  if (data.kind === "comparison") all.push({ name: `old ${metric}`, of: (row) => numberOf(row.results[0], state.metric), cell: (row) => { const v = numberOf(row.results[0], state.metric); return v === null ? "" : short(v); }, number: true, wide: true });
  all.push({ name: metric, of: (row) => numberOf(newest(row), state.metric), cell: shown, number: true });
  if (data.kind === "trend") all.push({ name: "course", of: null, cell: (row) => sparkline(row.results.map((r) => numberOf(r, state.metric)), metric), wide: true });
  all.push({ name: "seconds", of: (row) => newest(row).seconds, cell: (row) => short(newest(row).seconds, 3), number: true, wide: true });
  return all;
}

/// The outcome of every run in a word's first letter.
function course(row) {
  const all = row.results.map((result) => result ? result.outcome : "not run");
  const letters = all.map((text) => element("span", { class: text.replaceAll(" ", "-"), title: text }, text === "pass" ? "·" : text === "not run" ? "–" : text[0].toUpperCase()));
  return element("span", { class: "number", role: "img", "aria-label": all.join(", ") }, ...letters);
}

/// The button that opens a case.
function opener(row) {
  const button = element("button", { type: "button", "aria-expanded": "false" }, row.name);
  button.addEventListener("click", () => {
    const at = button.closest("tr"), [now, before] = detailsOf(row.index);
    if (button.getAttribute("aria-expanded") === "true") at.nextElementSibling.remove();
    else at.after(element("tr", { class: "panel" }, element("td", { colspan: columns().length }, panel(now, before, row.loosened))));
    at.classList.toggle("open");
    button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true"));
  });
  return button;
}

/// The results of a row in full: the newest, and the old one of a comparison.
function detailsOf(index) {
  lines ??= document.getElementById("details").textContent.trim().split("\n");
  return JSON.parse(lines[index]);
}

/// The rows that match the filters, in the order that was asked for; what has no value comes last.
function chosen() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = (row) =>
    (!state.outcome || (state.outcome === "unexpected" ? !newest(row).ok : newest(row).outcome === state.outcome)) &&
    (!state.change || row.change === state.change) &&
    (!state.group || row.groups.includes(state.group)) &&
    Object.entries(state.axes).every(([i, text]) => !text || row.axes[i] === text) &&
    words.every((word) => row.name.toLowerCase().includes(word));
  const rows = data.rows.filter(wanted);
  const column = columns()[state.column];
  if (!column || !column.of) return rows;
  const missing = (x) => x === null || x === undefined || Number.isNaN(x);
  const keyed = rows.map((row) => [column.of(row), row]);
  const order = new Intl.Collator("en", { numeric: true });
  keyed.sort(([a], [b]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    const by = typeof a === "string" ? order.compare(a, b) : a < b ? -1 : a > b ? 1 : 0;
    return state.descending ? -by : by;
  });
  return keyed.map(([, row]) => row);
}

function draw() {
  const rows = chosen(), shown = columns();
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  state.page = Math.min(state.page, pages - 1);
  const start = state.page * PAGE, part = rows.slice(start, start + PAGE);
  document.getElementById("head").replaceChildren(...shown.map(heading));
  document.getElementById("body").replaceChildren(...part.map((row) => {
    const cells = shown.map((column) => element("td", { class: `${column.number ? "number" : ""}${column.wide ? " wide" : ""}` }, column.cell(row)));
    return element("tr", { class: "case" }, ...cells);
  }));
  document.getElementById("status").textContent = rows.length === 0 ? "No case matches." : `${grouped(start + 1)} to ${grouped(start + part.length)} of ${grouped(rows.length)} cases`;
  document.getElementById("previous").disabled = state.page === 0;
  document.getElementById("next").disabled = state.page + 1 >= pages;
  for (const button of document.querySelectorAll("[data-outcome]")) button.setAttribute("aria-pressed", String(button.dataset.outcome === state.outcome));
}

function heading(column, i) {
  const sort = state.column === i ? (state.descending ? "descending" : "ascending") : "none";
  const cell = element("th", { scope: "col", class: `${column.number ? "number" : ""}${column.wide ? " wide" : ""}` });
  if (!column.of) { cell.append(column.name); return cell; }
  cell.setAttribute("aria-sort", sort);
  const button = element("button", { type: "button" }, column.name);
  button.addEventListener("click", () => {
    // Numbers are first shown from the largest: that is where the trouble is.
    state.descending = state.column === i ? !state.descending : Boolean(column.number);
    state.column = i;
    state.page = 0;
    draw();
    document.querySelectorAll("#head th")[i].firstChild.focus();
  });
  cell.append(button);
  return cell;
}

/// A list of choices with `all` before them; none where there is nothing to choose.
function choice(title, values, set, all = "all") {
  if (values.length < 2) return [];
  const select = element("select", {}, ...(all ? [element("option", { value: "" }, all)] : []), ...values.map((v) => element("option", { value: v }, v)));
  select.addEventListener("change", () => { set(select.value); state.page = 0; draw(); });
  return [element("label", {}, title, select)];
}

function filters() {
  const distinct = (values) => [...new Set(values)].filter(Boolean);
  const text = element("input", { type: "search", id: "text", placeholder: "words of its name" });
  text.addEventListener("input", () => { state.text = text.value; state.page = 0; draw(); });
  const axes = data.axes.flatMap((name, i) => {
    const values = distinct(data.rows.map((row) => row.axes[i])).sort(new Intl.Collator("en", { numeric: true }).compare);
    return values.length > 40 ? [] : choice(name, values, (v) => { state.axes[i] = v; });
  });
  const changes = distinct(data.rows.map((row) => row.change || ""));
  const form = document.getElementById("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(
    element("label", {}, "Case", text),
    ...choice("Change", data.changes.filter((c) => changes.includes(c)), (v) => { state.change = v; }),
    ...choice("Group", distinct(data.rows.flatMap((row) => row.groups)).sort(), (v) => { state.group = v; }),
    ...axes,
    ...choice("Number shown", data.numbers, (v) => { state.metric = data.numbers.indexOf(v); }, null),
  );
}

function turn(by) {
  return () => { state.page += by; draw(); document.getElementById("cases").scrollIntoView(); };
}

// What needs attention comes first.
if (data.kind === "comparison") state.column = 2;
else if (data.rows.some((row) => !newest(row).ok)) state.column = 1;
filters();
for (const button of document.querySelectorAll("[data-outcome]")) {
  button.addEventListener("click", () => { state.outcome = state.outcome === button.dataset.outcome ? "" : button.dataset.outcome; state.page = 0; draw(); });
}
document.getElementById("previous").addEventListener("click", turn(-1));
document.getElementById("next").addEventListener("click", turn(1));
draw();
if (data.rows.length === 1) document.querySelector("tr.case button").click();
