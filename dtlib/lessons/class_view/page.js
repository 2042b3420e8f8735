// The instructor's page: asks the server every two seconds and draws what it answers.
//
// The key comes in the part of the address after #, which a browser sends to nobody. It is taken out
// of the address at once, because the page is meant to be projected. All texts become text nodes, so
// that nothing that a student sends is ever read as markup.
"use strict";

const EVERY = 2000; // milliseconds
const find = (id) => document.getElementById(id);
let key = "";
let drawn = "";
let heard = null;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function number(value, kind) {
  const className = `number ${kind}${value ? "" : " none"}`;
  return element("td", { className }, String(value));
}

// Names may break after an underscore, and what stands in back-ticks is code.
function breakable(name) {
  return name.split(/(?<=_)/).flatMap((part, k) => (k ? [element("wbr"), part] : [part]));
}

function prose(sentence) {
  return sentence.split("`").map((part, k) => (k % 2 ? element("code", {}, part) : part));
}

function mistake(one) {
  const count = element("strong", {}, `${one.who.length} × `);
  const item = element("li", {}, count, ...prose(one.sentence));
  if (find("who").checked) {
    item.append(element("div", { className: "who" }, one.who.join(", ")));
  }
  return item;
}

function row(exercise) {
  const where = element("td", { className: "where" });
  if (exercise.mistakes.length) {
    where.append(element("ul", {}, ...exercise.mistakes.map(mistake)));
  }
  const called = exercise.number ? [`${exercise.number} `] : [];
  return element(
    "tr", {}, element("th", { scope: "row" }, ...called, ...breakable(exercise.name)),
    number(exercise.passed, "passed"), number(exercise.trying, "trying"),
    number(exercise.stuck, "stuck"), where,
  );
}

function section(lesson) {
  const id = `lesson-${lesson.number}`;
  const title = element("h2", { id }, `${lesson.number} ${lesson.title}`);
  const head = element("tr", {}, element("th", { scope: "col" }, "Exercise"));
  for (const word of ["Passed", "Trying", "Stuck"]) {
    head.append(element("th", { scope: "col", className: "number" }, word));
  }
  head.append(element("th", { scope: "col" }, "Stuck on"));
  const table = element(
    "table", {}, element("thead", {}, head),
    element("tbody", {}, ...lesson.exercises.map(row)),
  );
  table.setAttribute("aria-labelledby", id);
  return element("section", {}, title, table);
}

function offer(lessons) {
  const choice = find("lesson");
  const there = new Set([...choice.options].map((option) => option.value));
  for (const lesson of lessons.filter((one) => !there.has(one.number))) {
    choice.append(element("option", { value: lesson.number }, lesson.number));
  }
}

function draw(state) {
  offer(state.lessons);
  const chosen = find("lesson").value;
  const now = JSON.stringify([state, find("who").checked, chosen]);
  if (now === drawn) {
    return;
  }
  drawn = now;
  find("line").textContent = state.line;
  find("rule").textContent = state.rule;
  const nothing = element("p", {}, "No verdict has arrived yet.");
  const lessons = state.lessons.filter((one) => !chosen || one.number === chosen);
  const sections = lessons.length ? lessons.map(section) : [nothing];
  find("lessons").replaceChildren(...sections);
  const students = `${state.students} student${state.students === 1 ? " has" : "s have"} joined.`;
  say(students, false);
}

function say(text, late) {
  const status = find("status");
  if (status.textContent !== text) {
    status.textContent = text;
  }
  status.classList.toggle("late", late);
}

function showForm(sentence) {
  key = "";
  sessionStorage.removeItem("key");
  find("class").hidden = true;
  find("ask").hidden = false;
  say(sentence, false);
}

// Also when an address with a key is pasted into a tab that shows this page.
function takeKey() {
  let given = "";
  try {
    given = decodeURIComponent(location.hash.slice(1));
  } catch {
    // a % that encodes nothing is in no key
  }
  if (location.hash) {
    history.replaceState(null, "", location.pathname);
  }
  key = given || key;
  return given;
}

async function ask() {
  const asked = key;
  const headers = { authorization: `Bearer ${asked}` };
  const answer = await fetch("/api/class", { headers, signal: AbortSignal.timeout(5000) });
  const state = await answer.json();
  if (asked !== key) {
    return; // another key came in the meantime
  }
  if (answer.status === 403 || answer.status === 401) {
    showForm(state.error);
    return;
  }
  if (!answer.ok) {
    throw new Error(state.error);
  }
  heard = new Date();
  sessionStorage.setItem("key", key);
  find("ask").hidden = true;
  find("class").hidden = false;
  draw(state);
}

async function turn() {
  if (key) {
    try {
      await ask();
    } catch {
      const since = heard ? ` What you see is of ${heard.toLocaleTimeString()}.` : "";
      say(`The server does not answer; this page keeps asking.${since}`, true);
      drawn = "";
    }
  }
  setTimeout(turn, EVERY);
}

function look(theme) {
  document.documentElement.dataset.theme = theme;
  find("theme").textContent = theme === "dark" ? "Light" : "Dark";
  sessionStorage.setItem("theme", theme);
}

const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
look(sessionStorage.getItem("theme") || dark);
find("theme").addEventListener("click", () =>
  look(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
for (const id of ["who", "lesson"]) {
  find(id).addEventListener("change", () => key && ask().catch(() => {}));
}
find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  key = find("key").value.trim();
  find("key").value = "";
  ask().catch(() => {});
});
addEventListener("hashchange", () => {
  if (takeKey()) {
    ask().catch(() => {});
  }
});
key = sessionStorage.getItem("key") || "";
takeKey();
if (!key) {
  showForm("The page is not open yet.");
}
turn();
