// A figure fills the window on a click or by its button, and Escape closes it again.
(function () {
  let dialog;
  function open(figure, title) {
    if (!dialog) {
      dialog = document.createElement("dialog");
      dialog.className = "course-figure";
      const close = Object.assign(document.createElement("button"), { textContent: "Close", type: "button" });
      close.addEventListener("click", () => dialog.close());
      const stage = document.createElement("div");
      stage.tabIndex = 0;  // a keyboard scrolls what is larger than the window
      dialog.append(close, stage);
      // A click beside the figure closes it, too.
      dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
      document.body.append(dialog);
    }
    const large = figure.cloneNode(true);
    large.removeAttribute("style");
    large.removeAttribute("width");
    large.removeAttribute("height");
    large.style.fill = "currentColor";
    dialog.setAttribute("aria-label", title);
    dialog.lastChild.setAttribute("aria-label", title);
    dialog.lastChild.setAttribute("role", "group");
    dialog.lastChild.replaceChildren(large);
    dialog.showModal();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const figures = document.querySelectorAll(".dtlib-figure > svg, article figure img, .cell_output img");
    figures.forEach((figure) => {
      const words = figure.getAttribute("aria-label") || figure.alt || "";
      const first = (/^.{0,80}?[.?!](?=\s|$)/.exec(words) || [words.slice(0, 80)])[0];
      const button = Object.assign(document.createElement("button"), {
        type: "button", className: "course-enlarge", textContent: "Enlarge",
      });
      button.setAttribute("aria-label", `Enlarge the figure: ${first}`);
      const show = () => open(figure, first || "Figure");
      button.addEventListener("click", show);
      if (!figure.closest("a")) figure.addEventListener("click", show);
      figure.classList.add("course-enlargeable");
      (figure.closest(".dtlib-figure") || figure.closest("figure") || figure).after(button);
    });
  });
})();
