// Every page: MathJax finds its fonts here, and widgets find the Python that runs in a page.
(function () {
  const here = new URL("./", document.currentScript.src);
  const mathjax = (window.MathJax = window.MathJax || {});
  mathjax.loader = { ...mathjax.loader, paths: { fonts: "[mathjax]/fonts" } };
  window.COURSE_PYTHON = new URL("micropython/", here).href;
})();
