// A prediction: a number or one of several options, sure or unsure, committed before the run.
function render({ model, el }) {
  const spec = model.get("spec");
  const box = frame(el, "dtlib-prediction");
  const form = make("form", {});
  const inner = make("fieldset", {}, make("legend", {}, spec.question));
  const group = unique("options");
  let number = null;
  if (spec.options.length) {
    spec.options.forEach((text, i) => {
      inner.append(make("label", {}, radio(group, String(i)), ` ${text}`));
    });
  } else {
    number = make("input", { type: "number", step: "any", min: "0", required: true });
    const unit = spec.unit ? ` ${spec.unit}` : "";
    inner.append(make("label", {}, "Your number: ", number, unit));
  }
  const sureness = unique("sure");
  inner.append(
    make("fieldset", {}, make("legend", {}, "How sure are you?"),
      make("label", {}, radio(sureness, "sure"), " sure"),
      make("label", {}, radio(sureness, "unsure"), " unsure")),
    make("button", { type: "submit" }, "Commit"),
  );
  const status = make("p", { role: "status", "aria-live": "polite" });
  form.append(inner);
  box.append(form, status);

  const chosen = (name) => form.querySelector(`input[name="${name}"]:checked`);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = number ? Number(number.value) : spec.options[Number(chosen(group).value)];
    const answer = { value, sure: chosen(sureness).value === "sure" };
    globalThis.COURSE?.keep("predictions", spec.place, answer);
    model.set("answer", answer);
    model.save_changes();
  });
  const draw = () => {
    const answer = model.get("answer");
    if (!("value" in answer)) return;
    if (number) number.value = String(answer.value);
    else form.querySelectorAll(`input[name="${group}"]`).forEach((input, i) => {
      input.checked = spec.options[i] === answer.value;
    });
    form.querySelector(`input[name="${sureness}"][value="${answer.sure ? "sure" : "unsure"}"]`).checked = true;
    inner.disabled = true;
    const unit = number && spec.unit ? ` ${spec.unit}` : "";
    const next = globalThis.COURSE
      ? "This browser keeps it, and shows it beside the measured result below."
      : "Now run the cells below.";
    status.textContent = `Committed: ${answer.value}${unit} (${answer.sure ? "sure" : "unsure"}). ${next}`;
  };
  model.on("change:answer", draw);
  const kept = globalThis.COURSE?.kept("predictions", spec.place);
  if (kept) model.set("answer", kept);
  draw();
}
export default { render };
