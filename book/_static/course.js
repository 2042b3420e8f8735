// Every page: MathJax finds its fonts here, widgets find the Python that runs in a page and what this
// browser keeps of its reader, and what a screen reader says is what stands there.
(function () {
  const here = new URL("./", document.currentScript.src);
  const mathjax = (window.MathJax = window.MathJax || {});
  mathjax.loader = { ...mathjax.loader, paths: { fonts: "[mathjax]/fonts" } };
  window.COURSE_PYTHON = new URL("micropython/", here).href;

  // What the reader has read, answered and predicted. It never leaves the browser; where a browser
  // refuses to keep anything, it lasts as long as the page.
  const PLACE = "distributed-training";
  const read = () => {
    try {
      return JSON.parse(localStorage.getItem(PLACE)) || {};
    } catch {
      return null;
    }
  };
  let all = read() || {};
  window.COURSE = {
    // The page's name, which is that of the lesson's room.
    page: decodeURIComponent(location.pathname.split("/").at(-1)).replace(/\.html$/, ""),
    kept: (kind, key) => (key === undefined ? all[kind] || {} : all[kind]?.[key]),
    keep(kind, key, value) {
      all = read() || all;  // another tab may have kept something since
      all[kind] = { ...all[kind], [key]: value };
      try {
        localStorage.setItem(PLACE, JSON.stringify(all));
      } catch { /* it lasts as long as the page */ }
      window.dispatchEvent(new Event("course-kept"));
    },
    clear() {
      all = {};
      try {
        localStorage.removeItem(PLACE);
      } catch { /* nothing was kept */ }
      window.dispatchEvent(new Event("course-kept"));
    },
  };

  document.addEventListener("DOMContentLoaded", () => {
    // A folded cell is called "Toggle hidden content" by MyST-NB, whatever its line says.
    document.querySelectorAll("details.hide > summary").forEach((one) => one.removeAttribute("aria-label"));
    // The theme's button says its shortcut, and its name does not.
    document.querySelectorAll(".search-button-field").forEach((one) =>
      one.setAttribute("aria-label", one.textContent.replace(/\s+/g, " ").trim()));
  });
})();
