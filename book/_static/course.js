// Every page: MathJax finds its fonts here, widgets find the Python that runs in a page, and what a
// screen reader says is what stands there.
(function () {
  const here = new URL("./", document.currentScript.src);
  const mathjax = (window.MathJax = window.MathJax || {});
  mathjax.loader = { ...mathjax.loader, paths: { fonts: "[mathjax]/fonts" } };
  window.COURSE_PYTHON = new URL("micropython/", here).href;
  document.addEventListener("DOMContentLoaded", () => {
    // A folded solution is called "Toggle hidden content" by MyST-NB, whatever its line says.
    document.querySelectorAll("details.hide > summary").forEach((one) => one.removeAttribute("aria-label"));
    // The theme's button says its shortcut, and its name does not.
    document.querySelectorAll(".search-button-field").forEach((one) =>
      one.setAttribute("aria-label", one.textContent.replace(/\s+/g, " ").trim()));
  });
})();
