// Pictures as SVG. Each has a name for those who do not see it; the numbers behind it are in its title or beside it.
const WIDTH = 340;

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function picture(name, height, width = WIDTH) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name });
}

function label(x, y, text, anchor = "start") {
  return svg("text", { x, y, "text-anchor": anchor }, text);
}

/// Bars of counts, a bin a row, on a logarithmic axis: a single element shows beside millions.
function histogram({ measure, bins, counts, left_out }) {
  if (left_out > 0) [bins, counts] = [[...bins, "|r| <= 1e-3"], [...counts, left_out]];
  const left = 92, right = 78, row = 18, top = 4;
  const most = Math.max(1, ...counts);
  const decades = Math.max(1, Math.ceil(Math.log10(most)));
  const x = (count) => left + (Math.log10(count) + 0.25) / (decades + 0.25) * (WIDTH - left - right);
  const height = top + bins.length * row + 18;
  const chart = picture(`${measure}: ${bins.map((bin, i) => `${bin} ${counts[i]}`).join(", ")}`, height);
  for (let power = 0; power <= decades; power++) {
    const at = x(10 ** power);
    chart.append(svg("line", { class: "grid", x1: at, x2: at, y1: top, y2: height - 16 }));
    if (power % Math.ceil(decades / 5) === 0) chart.append(label(at, height - 3, power < 4 ? String(10 ** power) : `1e${power}`, "middle"));
  }
  bins.forEach((bin, i) => {
    const y = top + i * row;
    chart.append(label(left - 6, y + 13, bin, "end"), label(WIDTH, y + 13, grouped(counts[i]), "end"));
    if (counts[i] > 0) chart.append(svg("rect", { class: "bar", x: left, y: y + 3, width: Math.max(1, x(counts[i]) - left), height: row - 6 }));
  });
  return chart;
}

/// The largest and the mean error of each power of two of the reference, on logarithmic axes. Powers with mismatches are marked.
function magnitudes(bands) {
  const left = 46, top = 8, bottom = 180, right = 8;
  const numbers = bands.flatMap((band) => [asNumber(band.max), asNumber(band.mean)]).filter((x) => x > 0 && isFinite(x));
  const powers = bands.map((band) => band.exponent).filter((e) => e !== null && e !== undefined);
  if (numbers.length === 0 || powers.length === 0) return null;
  const [low, high] = range(powers);
  const [least, most] = range(numbers.map(Math.log10)).map((v, i) => i ? Math.ceil(v + 1e-9) : Math.floor(v));
  const x = (e) => left + (high === low ? 0.5 : (e - low) / (high - low)) * (WIDTH - left - right);
  const y = (v) => bottom - (Math.log10(v) - least) / Math.max(1, most - least) * (bottom - top);
  const chart = picture(`Error against magnitude: reference from 2^${low} to 2^${high}, largest error up to ${short(Math.max(...numbers))}`, 212);
  const step = Math.max(1, Math.ceil((most - least) / 6));
  for (let power = least; power <= most; power += step) {
    chart.append(svg("line", { class: "grid", x1: left, x2: WIDTH - right, y1: y(10 ** power), y2: y(10 ** power) }), label(left - 5, y(10 ** power) + 4, `1e${power}`, "end"));
  }
  for (const e of new Set([low, Math.round((low + high) / 2), high])) chart.append(label(x(e), bottom + 16, `2^${e}`, e === high && high > low ? "end" : "middle"));
  chart.append(label(WIDTH / 2 + left / 2, 210, "|reference|", "middle"));
  for (const [key, extra] of [["mean", " second"], ["max", ""]]) {
    const points = bands.filter((b) => typeof b.exponent === "number" && asNumber(b[key]) > 0 && isFinite(asNumber(b[key])));
    chart.append(svg("polyline", { class: `line${extra}`, points: points.map((b) => `${x(b.exponent)},${y(asNumber(b[key]))}`).join(" ") }));
    for (const b of points) {
      const fails = key === "max" && b.mismatches > 0 ? " fails" : "";
      const text = `2^${b.exponent}: ${grouped(b.elements)} elements, ${grouped(b.mismatches)} mismatches, largest error ${short(asNumber(b.max))}, mean ${short(asNumber(b.mean))}`;
      chart.append(svg("circle", { class: `dot${extra}${fails}`, cx: x(b.exponent), cy: y(asNumber(b[key])), r: fails ? 3.5 : 2.5 }, svg("title", {}, text)));
    }
  }
  return chart;
}

/// The share of mismatches of each block of a tensor. Any share above none is at least faintly seen.
function heatMap({ blocks: [down, across], block, shares }) {
  const left = 44, top = 16, side = Math.min((WIDTH - left - 2) / across, 260 / down, 40);
  const worst = shares.filter((share) => share > 0).length;
  const chart = picture(`Mismatches in ${worst} of ${shares.length} blocks of ${block[0]} by ${block[1]} elements`, Math.ceil(top + down * side + 4));
  shares.forEach((share, i) => {
    if (!(share > 0)) return;
    const [row, column] = [Math.floor(i / across), i % across];
    const text = `rows from ${row * block[0]}, columns from ${column * block[1]}: ${short(100 * share)} % mismatches`;
    const opacity = 0.25 + 0.75 * share;
    chart.append(svg("rect", { class: "heat", x: left + column * side, y: top + row * side, width: side, height: side, "fill-opacity": opacity }, svg("title", {}, text)));
  });
  chart.append(svg("rect", { class: "frame", x: left, y: top, width: across * side, height: down * side }));
  chart.append(label(left, 11, "0"), label(left - 5, top + 10, "0", "end"));
  if (across > 1) chart.append(label(left + across * side, 11, String((across - 1) * block[1]), "end"));
  if (down > 1) chart.append(label(left - 5, top + down * side, String((down - 1) * block[0]), "end"));
  return chart;
}

/// The course of a number over runs.
function sparkline(values, name) {
  const chart = picture(`${name}: ${values.map((v) => v === null ? "none" : short(v)).join(", ")}`, 22, 100);
  chart.classList.add("spark");
  const known = values.map((v, i) => [i, v]).filter(([, v]) => v !== null && isFinite(v));
  if (known.length === 0) return chart;
  const [least, most] = range(known.map(([, v]) => v));
  const x = (i) => 4 + i / Math.max(1, values.length - 1) * 92;
  const y = (v) => most === least ? 11 : 18 - (v - least) / (most - least) * 14;
  chart.append(svg("polyline", { class: "line", points: known.map(([i, v]) => `${x(i)},${y(v)}`).join(" ") }));
  const [i, v] = known[known.length - 1];
  chart.append(svg("circle", { class: "dot", cx: x(i), cy: y(v), r: 2.5 }));
  return chart;
}

function range(values) {
  return values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
}
