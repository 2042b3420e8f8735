// Shared by the lesson's widgets: each widget's file is appended to this one. Nothing is fetched.
let count = 0;
const unique = (word) => `dtlib-${word}-${Date.now().toString(36)}-${count++}`;

// Make an element: properties, then children (strings become text, `code` and *stress* in it too).
function make(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class" || key === "for" || key.startsWith("aria-") || key === "role")
      el.setAttribute(key, value);
    else el[key] = value;
  }
  // JupyterLab turns its shortcuts off on an element with this mark: in command mode an arrow key
  // would otherwise move the notebook's selection instead of the radio button.
  if (["input", "button", "summary", "pre"].includes(tag)) el.dataset.lmSuppressShortcuts = "true";
  for (const child of children) el.append(...(typeof child === "string" ? rich(child) : [child]));
  return el;
}

function rich(text) {
  const parts = String(text).split("`");
  if (parts.length % 2 === 0) return [text];
  return parts.flatMap((part, i) => (i % 2 ? [element("code", part)] : stressed(part)));
}

// *Words* are emphasised, as in show.py.
function stressed(text) {
  const parts = text.split(/(?<![\w*])\*([A-Za-z]+(?: [A-Za-z]+)*)\*(?![\w*])/);
  return parts.map((part, i) => (i % 2 ? element("em", part) : part));
}

const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

const STYLE = `
.dtlib-form { max-width: 46rem; line-height: 1.5; color: var(--jp-content-font-color1, inherit); }
.dtlib-form fieldset { border: 1px solid currentColor; border-radius: 4px; margin: 0.5rem 0; padding: 0.6rem 0.9rem; min-width: 0; }
.dtlib-form fieldset fieldset { border: 0; padding: 0; }
/* A floating legend is drawn inside its frame. */
.dtlib-form legend { font-weight: 600; font-size: inherit; line-height: inherit; float: left; width: 100%; margin: 0 0 0.3rem; padding: 0; white-space: normal; }
.dtlib-form legend + * { clear: both; }
.dtlib-said { border-left: 4px solid currentColor; padding-left: 0.8rem; }
.dtlib-said.right { border-color: #2fa385; }
.dtlib-said.wrong { border-color: #cd1242; }
.dtlib-form label { display: block; padding: 0.2rem 0; min-height: 24px; }
.dtlib-form input[type="number"] { font: inherit; width: 9rem; padding: 0.2rem; }
.dtlib-form input[type="range"] { width: 100%; margin: 0; min-height: 24px; }
.dtlib-form button { font: inherit; padding: 0.3rem 0.9rem; min-height: 28px; margin: 0.3rem 0.5rem 0.3rem 0; }
.dtlib-form output { float: right; font-variant-numeric: tabular-nums; }
.dtlib-what-if label { display: inline-block; }
.dtlib-form :focus-visible { outline: 3px solid #1a73e8; outline-offset: 2px; }
.dtlib-form pre { overflow-x: auto; margin-bottom: 0.6rem; }
.dtlib-form table { border-collapse: collapse; }
.dtlib-form th, .dtlib-form td { padding: 0.1rem 0.7rem; text-align: right; }
.dtlib-what-if { display: flex; flex-wrap: wrap; gap: 1rem; max-width: 60rem; }
.dtlib-what-if > div { flex: 1 1 20rem; min-width: 0; }
.dtlib-curves svg { max-width: 36rem; }
.dtlib-what-if > .dtlib-numbers { flex-basis: 100%; }
@media (max-width: 700px) {
  .dtlib-what-if { flex-direction: column; flex-wrap: nowrap; gap: 0.5rem; }
  .dtlib-what-if > div { flex: none; }
  .dtlib-what-if > .dtlib-curves { order: -1; position: sticky; top: var(--course-top, 0px); z-index: 1; background: var(--jp-layout-color0, var(--pst-color-background, Canvas)); }
  .dtlib-what-if .dtlib-curves svg { max-height: 45vh; }
}
`;

// The outer box, with its style.
function frame(el, className) {
  const box = make("div", { class: `dtlib-form ${className}` });
  box.append(make("style", {}, STYLE));
  el.append(box);
  return box;
}

function radio(name, value, checked) {
  return make("input", { type: "radio", name, value, checked, required: true });
}
