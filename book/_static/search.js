// What the search shows of a page is its prose: no buttons and menus of the theme, no TeX, no code.
(function () {
  const NO_PROSE = [
    ".headerlink", "script", "style", "button", "pre", "svg", "mjx-container", ".math", ".cell_input",
    ".cell_output", ".header-article", ".prev-next-area", ".prev-next-footer", ".bd-sidebar-secondary",
    ".toctree-wrapper", ".dtlib-form", ".admonition-title", "details.hide", "form", "nav", "footer",
    "#print-main-content", "#searchbox", "noscript", "table",
  ].join(",");
  document.addEventListener("DOMContentLoaded", () => {
    if (typeof Search === "undefined") return;
    Search.htmlToText = (markup, anchor) => {
      const page = new DOMParser().parseFromString(markup, "text/html");
      const article = page.querySelector("article.bd-article") || page.querySelector("[role=main]");
      if (!article) return "";
      article.querySelectorAll(NO_PROSE).forEach((one) => one.remove());
      let part = (anchor && article.querySelector(anchor)) || article;
      // A term is explained by what follows it.
      if (part.tagName === "DT" && part.nextElementSibling) part = part.nextElementSibling;
      // A heading stands in the title already.
      part.querySelector("h1, h2, h3")?.remove();
      // Where a block ends, words end.
      part.querySelectorAll("p, li, h2, h3, dt, dd, td").forEach((one) => one.append(" "));
      return part.textContent.replace(/\s+/g, " ").trim();
    };
    // About thirty words around the first one that was looked for, none of them cut in two.
    Search.makeSearchSummary = (markup, keywords, anchor) => {
      const text = Search.htmlToText(markup, anchor);
      if (!text) return null;
      const places = [...keywords].map((word) => text.toLowerCase().indexOf(word.toLowerCase()));
      const found = Math.min(...places.filter((place) => place >= 0));
      const from = Number.isFinite(found) && found > 100 ? text.indexOf(" ", found - 100) + 1 : 0;
      const end = text.indexOf(" ", from + 220);
      const words = text.slice(from, end < 0 ? undefined : end);
      const summary = Object.assign(document.createElement("p"), { className: "context" });
      summary.textContent = (from ? "… " : "") + words + (end < 0 ? "" : " …");
      return summary;
    };
  });
})();
