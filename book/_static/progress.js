// What this browser keeps of its reader, shown: lessons read and quiz questions answered in the
// sidebar, and the reader's prediction beside the number that the page's run measured.
(function () {
  const COURSE = window.COURSE;
  const add = (place, name, text, className) =>
    place.appendChild(Object.assign(document.createElement(name), { textContent: text, className }));

  function lessonOf(link) {
    const found = /lessons\/([^/#]+)\.html/.exec(link.href);
    return found ? decodeURIComponent(found[1]) : link.getAttribute("href") === "#" ? COURSE.page : null;
  }

  // ✓ behind a lesson that was read to its end, and how many of its questions were answered rightly.
  function mark(link, quizzes) {
    const stem = lessonOf(link);
    if (!(stem in quizzes)) return;
    link.querySelector(".course-mark")?.remove();
    const right = Object.values(COURSE.kept("quiz", stem) || {}).filter((one) => one.right).length;
    const read = Boolean(COURSE.kept("read", stem));
    if (!read && !right) return;
    const note = add(link, "span", "", "course-mark");
    if (right) add(note, "span", ` ${right}/${quizzes[stem]}`, "").title = "quiz questions answered rightly";
    if (read) add(note, "span", " ✓", "").title = "read to its end";
  }

  function sidebar() {
    const box = document.querySelector(".course-path");
    if (!box) return;
    const quizzes = JSON.parse(box.dataset.quizzes);
    document.querySelectorAll(".bd-sidebar-primary .bd-links a").forEach((link) => mark(link, quizzes));
    const stops = [...box.querySelectorAll("a[data-lesson]")];
    const read = stops.filter((stop) => {
      const done = Boolean(COURSE.kept("read", stop.dataset.lesson));
      stop.classList.toggle("is-read", done);
      stop.setAttribute("aria-label", stop.title + (done ? ", read" : ""));
      return done;
    });
    const answered = Object.entries(COURSE.kept("quiz")).flatMap(([stem, one]) => (stem in quizzes ? Object.values(one) : []));
    const right = answered.filter((one) => one.right).length;
    box.querySelector("[data-says]").textContent =
      `You have read ${read.length} of ${stops.length}` + (answered.length ? `; quizzes: ${right} right of ${answered.length} answered.` : ".");
    const something = ["read", "quiz", "predictions"].some((kind) => Object.keys(COURSE.kept(kind)).length);
    box.querySelector("button").hidden = !something;
  }

  // The theme scrolls the sidebar to the page's own link, which must not end behind the path.
  function uncover() {
    const box = document.querySelector(".course-path"), link = document.querySelector(".bd-links a.current");
    const bar = document.querySelector(".bd-sidebar-primary");
    if (!box || !link || !bar) return;
    const hidden = box.getBoundingClientRect().bottom - link.getBoundingClientRect().top;
    if (hidden > 0) bar.scrollTop -= hidden + 16;
  }

  // A lesson is read when its end has been seen.
  function watch() {
    const end = document.querySelector(".prev-next-area");
    const box = document.querySelector(".course-path");
    if (!end || !(COURSE.page in JSON.parse(box?.dataset.quizzes || "{}"))) return;
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((one) => one.isIntersecting)) return;
      seen.disconnect();
      if (!COURSE.kept("read", COURSE.page)) COURSE.keep("read", COURSE.page, new Date().toISOString().slice(0, 10));
    });
    seen.observe(end);
  }

  // Whether a guess holds, and one sentence about it: as dtlib/learn/predictions.py judges it.
  function judged(outcome, guess) {
    if (outcome.options) return outcome.options[guess] || [null, ""];
    const { value, close } = outcome;
    if (typeof guess !== "number" || typeof value !== "number") return [null, ""];
    const right = Math.abs(guess - value) <= close * Math.abs(value), ratio = guess / value;
    if (!value) return [right, ""];
    if (ratio > 10) return [right, `Your number is ${Number(ratio.toPrecision(3)).toLocaleString("en")} times the measured one.`];
    return [right, `You were ${Math.round(Math.abs(ratio - 1) * 100)}% off.`];
  }

  function predictions() {
    document.querySelectorAll(".dtlib-measured").forEach((box) => {
      const said = box.querySelector(".dtlib-guess");
      const guess = COURSE.kept("predictions", box.dataset.prediction);
      if (!guess) {
        said.textContent = "You have committed no prediction on this page.";
        return;
      }
      const outcome = JSON.parse(box.dataset.outcome);
      const [right, why] = !outcome.judged ? [null, ""] : judged(outcome, guess.value);
      const verdict = right === null ? "" : right ? " As predicted." : " Not as predicted.";
      said.textContent = "";
      add(said, "strong", `You predicted${guess.sure === undefined ? "" : guess.sure ? " (sure)" : " (unsure)"}: `);
      said.append(`${guess.value} ${outcome.options ? "" : outcome.unit || ""}`.trim() + `.${verdict} ${why}`);
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const draw = () => { sidebar(); predictions(); };
    draw();
    watch();
    window.addEventListener("load", uncover);
    window.addEventListener("course-kept", draw);
    document.querySelector(".course-path button")?.addEventListener("click", () => {
      if (confirm("Forget which lessons you read, your answers and your predictions? They are kept in this browser alone.")) {
        COURSE.clear();
        history.scrollRestoration = "manual";  // at the end of a lesson it would be read again
        location.reload();
      }
    });
  });
})();
