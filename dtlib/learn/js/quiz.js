// A quiz: every option has an explanation, and another try has other numbers. Python prepares the
// variants, so the quiz also works in a static page.
function question(model, item) {
  let turn = 0;
  const same = item.variants.every((v) => v.text + v.output === item.variants[0].text + item.variants[0].output);
  const retry = same ? "Try again" : "Try again, with other numbers";
  // A web page has no kernel that keeps answers: its browser does.
  const page = globalThis.COURSE;
  const place = make("section", {});
  const draw = (focus) => {
    const variant = item.variants[turn % item.variants.length];
    const group = unique("quiz");
    const form = make("form", {});
    const inner = make("fieldset", {}, make("legend", {}, variant.text));
    if (item.from) inner.append(make("p", {}, `(from lesson ${item.from})`));
    if (variant.output) {
      inner.append(make("pre", { tabIndex: 0 }, Object.assign(document.createElement("code"), { textContent: variant.output })));
    }
    variant.options.forEach((option, i) => {
      inner.append(make("label", {}, radio(group, String(i)), ` ${option.text}`));
    });
    const status = make("div", { role: "status", "aria-live": "polite" });
    const earlier = page?.kept("quiz", page.page)?.[item.id];
    if (earlier && turn === 0) inner.append(make("p", {}, earlier.right ? "You have answered this one rightly." : "You have tried this one."));
    const again = make("button", { type: "button", hidden: true }, retry);
    inner.append(make("button", { type: "submit" }, "Answer"), again);
    form.append(inner, status);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const option = variant.options[Number(form.querySelector("input:checked").value)];
      status.className = `dtlib-said ${option.right ? "right" : "wrong"}`;
      status.replaceChildren(make("p", {}, make("strong", {}, option.right ? "Right." : "Not this one."), ` ${option.why}`));
      if (option.right) {
        const others = variant.options.filter((o) => o !== option);
        status.append(make("details", {}, make("summary", {}, "Why not the others"),
          make("ul", {}, ...others.map((o) => make("li", {}, `${o.text}: ${o.why}`)))));
      }
      again.hidden = false;
      const answers = { ...(page?.kept("quiz", page.page) ?? model.get("answers")) };
      const before = answers[item.id] || { tries: 0, right: false };
      answers[item.id] = { tries: before.tries + 1, right: before.right || option.right };
      page?.keep("quiz", page.page, answers);
      model.set("answers", answers);
      model.save_changes();
    });
    again.addEventListener("click", () => { turn += 1; draw(true); });
    place.replaceChildren(form);
    if (focus) form.querySelector("input").focus();
  };
  draw(false);
  return place;
}

function render({ model, el }) {
  const box = frame(el, "dtlib-quiz");
  model.get("questions").forEach((item) => box.append(question(model, item)));
}
export default { render };
