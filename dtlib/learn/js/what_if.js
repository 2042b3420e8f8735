// Sliders -> a pure-Python function -> curves, a sentence and a table. In JupyterLab the kernel runs
// the function; in a static page MicroPython runs the same source, if the page says where MicroPython is.
let engine;
function pageEngine(source, name) {
  engine ??= (async () => {
    const { loadMicroPython } = await import(globalThis.COURSE_PYTHON + "micropython.mjs");
    return loadMicroPython();
  })();
  return engine.then((python) => {
    python.runPython(`${source}\nimport json as _json\ndef _go(s):\n    return _json.dumps(${name}(**_json.loads(s)))\n`);
    const go = python.globals.get("_go");
    return (settings) => JSON.parse(go(JSON.stringify(settings)));
  });
}

// Curves keep the order that Python gave them, and with it their colours and dashes: a saved notebook
// sorts its keys, and MicroPython's dicts have no order.
function named(result) {
  const order = result.order || [];
  const place = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  return Object.entries(result.curves).sort(([a], [b]) => place(a) - place(b));
}

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, text) {
  const el = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value);
  if (text !== undefined) el.textContent = text;
  return el;
}

const DASHES = ["", "7 4", "2 3", "9 3 2 3"];  // a curve is recognised by its dashes and its label
const COLOURS = ["#5f8cc4", "#b86a08", "#2fa385", "#cd2ee8"];  // as figures.py has them, light and dark
// Three digits; large numbers are whole, with a comma between thousands.
const digits = (v) => (Number.isInteger(v) || Math.abs(v) >= 1000
  ? Math.round(v).toLocaleString("en") : String(Number(Number(v).toPrecision(3))));

// A slider's value as people say it: a word, 1 MB for 10^6, 2⁻²² or 1,024 for a power of two.
function spoken({ words, base, unit, min, step }, value) {
  if (words) return words[Math.round((value - min) / step)];
  if (!base) return `${Number.isInteger(value) ? value.toLocaleString("en") : value} ${unit || ""}`.trim();
  if (unit === "bytes") return inBytes(base ** value);
  if (value < 0 || value > 20) return `${base}${[...String(value)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"["0123456789-".indexOf(c)]).join("")}`;
  return `${Math.round(base ** value).toLocaleString("en")} ${unit || ""}`.trim();
}

function inBytes(bytes) {
  const k = Math.max(0, Math.min(4, Math.floor(Math.log10(bytes * 1.0005) / 3)));
  return `${Number((bytes / 1000 ** k).toPrecision(3))} ${["bytes", "kB", "MB", "GB", "TB"][k]}`;
}

function plot(result, label) {
  const curves = named(result);
  // Room for the longest label on the right, and for the name of the y axis above its numbers.
  const longest = Math.max(...curves.map(([name]) => name.length));
  const [W, H, left, right, low, top] = [460, 290, 74, Math.min(210, 18 + 9 * longest), 52, 38];
  const points = curves.flatMap(([, c]) => c);
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const log = Boolean(result.log_x);
  const fx = (x) => (log ? Math.log2(x) : x);
  const [x0, x1] = [fx(Math.min(...xs)), fx(Math.max(...xs))];
  const [y0, y1] = [Math.min(0, ...ys), Math.max(...ys)];
  const X = (x) => left + ((fx(x) - x0) / (x1 - x0 || 1)) * (W - left - right);
  const Y = (y) => H - low - ((y - y0) / (y1 - y0 || 1)) * (H - low - top);
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label, width: "100%" });
  const ink = { fill: "currentColor", "font-size": 16 };
  root.append(svg("path", { d: `M${left} ${top}V${H - low}H${W - right}`, stroke: "currentColor", fill: "none" }));
  for (const y of [y0, (y0 + y1) / 2, y1])
    root.append(svg("text", { ...ink, x: left - 6, y: Y(y) + 5, "text-anchor": "end" }, digits(y)));
  for (const x of [Math.min(...xs), Math.max(...xs)])
    root.append(svg("text", { ...ink, x: X(x), y: H - low + 19, "text-anchor": "middle" }, digits(x)));
  root.append(svg("text", { ...ink, x: (left + W - right) / 2, y: H - 6, "text-anchor": "middle" }, result.x || ""));
  root.append(svg("text", { ...ink, x: 2, y: 15 }, result.y || ""));
  curves.forEach(([name, curve], i) => {
    const d = curve.map(([x, y], k) => `${k ? "L" : "M"}${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join("");
    const dash = DASHES[i % DASHES.length];
    root.append(svg("path", { d, stroke: COLOURS[i % COLOURS.length], "stroke-width": 2, fill: "none", ...(dash && { "stroke-dasharray": dash }) }));
  });
  // Labels of curves that end together are stacked.
  const labels = curves.map(([name, curve]) => [name, X(curve.at(-1)[0]) + 5, Y(curve.at(-1)[1]) + 5]);
  let above = Infinity;
  for (const [name, x, y] of labels.sort((a, b) => b[2] - a[2])) {
    above = Math.min(y, above - 18);
    root.append(svg("text", { ...ink, x, y: above }, name));
  }
  if (result.point)
    root.append(svg("circle", { cx: X(result.point[0]), cy: Y(result.point[1]), r: 5, fill: "none", stroke: "currentColor", "stroke-width": 2 }));
  return root;
}

function table(result) {
  const names = named(result).map(([name]) => name);
  const xs = [...new Set(Object.values(result.curves).flatMap((c) => c.map((p) => p[0])))];
  const step = Math.max(1, Math.ceil(xs.length / 8));
  const kept = xs.filter((_, i) => i % step === 0 || i === xs.length - 1);
  const value = (name, x) => (result.curves[name].find((p) => p[0] === x) || [0, ""])[1];
  const head = make("tr", {}, ...[result.x || "", ...names].map((t) => make("th", {}, String(t))));
  head.querySelectorAll("th").forEach((th) => th.setAttribute("scope", "col"));
  const rows = kept.map((x) => make("tr", {}, make("th", {}, digits(x)), ...names.map((n) => make("td", {}, digits(value(n, x))))));
  rows.forEach((row) => row.firstChild.setAttribute("scope", "row"));
  return make("details", {}, make("summary", {}, "The same as a table"),
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function render({ model, el }) {
  const spec = model.get("spec");
  const box = frame(el, "dtlib-what-if");
  // On a narrow screen the curve stays in sight while a slider below it moves.
  const inputs = make("div", { class: "dtlib-inputs" }), figure = make("div", { class: "dtlib-curves" });
  const numbers = make("div", { class: "dtlib-numbers" });
  const status = make("p", { role: "status", "aria-live": "polite" });
  // Without a source the widget needs a kernel, for instance to start real ranks.
  const asleep = globalThis.COURSE_PYTHON && !model.get("source");
  if (asleep) inputs.append(make("p", {}, "The sliders start real processes, which a web page cannot do: open this lesson in JupyterLab (`make lab`) to move them."));
  for (const slider of spec.inputs) {
    const { name, label, min, max, step } = slider;
    const id = unique(name);
    const shown = make("output", { for: id });
    const input = make("input", { type: "range", name, id });
    // Set the value last: a range clips it to the limits that it has by then.
    Object.assign(input, { min, max, step }).value = model.get("settings")[name];
    const says = () => { shown.textContent = spoken(slider, Number(input.value)); input.setAttribute("aria-valuetext", shown.textContent); };
    says();
    input.addEventListener("input", async () => {
      says();
      const settings = { ...model.get("settings"), [name]: Number(input.value) };
      model.set("settings", settings);
      if (!globalThis.COURSE_PYTHON) return model.save_changes();
      try {
        const answer = await pageEngine(model.get("source"), spec.function);
        model.set("result", { ...answer(settings), order: model.get("result").order });
      } catch (error) {
        // A page that was opened as a file is not allowed to load scripts.
        status.textContent = `Python did not start in this page (${error.message}). Serve its folder: python3 -m http.server`;
      }
    });
    if (asleep) input.disabled = true;
    inputs.append(make("div", {}, make("label", { for: id }, label), shown, input));
  }
  const draw = () => {
    const result = model.get("result");
    if (!result || !result.curves) return;
    const open = numbers.querySelector("details")?.open;
    figure.replaceChildren(plot(result, `${spec.title}: ${result.says}`));
    numbers.replaceChildren(table(result));
    numbers.querySelector("details").open = Boolean(open);
    status.textContent = result.says;
  };
  model.on("change:result", draw);
  inputs.append(status);
  box.append(inputs, figure, numbers);
  draw();
}
export default { render };
