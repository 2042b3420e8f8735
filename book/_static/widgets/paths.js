// Pages with widgets, between require.js and the widget manager: modules are looked for here.
(function () {
  const here = new URL("./", document.currentScript.src);
  window.requirejs.config({ baseUrl: here.href.replace(/\/$/, "") });
  // The manager asks for MathJax 2's queue; MathJax 4 has none and typesets when told.
  document.addEventListener("DOMContentLoaded", () => {
    window.MathJax.Hub = { Queue: () => window.MathJax.typesetPromise?.() };
  });
})();
