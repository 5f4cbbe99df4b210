// Draws a figure anew while its sliders are moved: the same address as the form's button asks for, and the parts that change.
"use strict";

(() => {
  const form = document.getElementById("figure");
  const state = document.getElementById("state");
  const code = document.documentElement.lang;
  // Between the last movement and the question to the server.
  const REST_MS = 120;
  // Shorter waits are not worth a word.
  const PATIENCE_MS = 500;
  let waiting = 0;
  let isAsking = false;
  let isOutdated = false;

  const say = (text, kind = "small") => {
    if (state.textContent !== text) state.textContent = text;
    state.className = kind;
  };

  const settings = () => new URLSearchParams(new FormData(form)).toString();

  const showNumber = (slider) => {
    const digits = Number(slider.dataset.digits);
    const format = new Intl.NumberFormat(`${code}-CA`, { minimumFractionDigits: digits, maximumFractionDigits: digits });
    const text = format.format(Number(slider.value)) + slider.dataset.after;
    document.getElementById(`${slider.id}-shown`).textContent = text;
    slider.setAttribute("aria-valuetext", text);
  };

  const keepAddress = (asked) => {
    history.replaceState(null, "", `${location.pathname}?${asked}`);
    const other = document.getElementById("other-language");
    other.href = `?${asked}&lang=${other.hreflang}`;
  };

  // Replaces a part once its pictures are there, so that nothing flickers; focus and scrolled tables stay.
  const replacePart = (part, fresh) => {
    const boxes = [...part.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
    const focused = [...part.querySelectorAll("[tabindex], a[href]")].indexOf(document.activeElement);
    part.replaceWith(fresh);
    fresh.querySelectorAll(".scroll").forEach((each, place) => each.scrollTo(...(boxes[place] ?? [0, 0])));
    if (focused >= 0) fresh.querySelectorAll("[tabindex], a[href]")[focused]?.focus({ preventScroll: true });
  };

  const ask = async () => {
    if (isAsking) { isOutdated = true; return; }
    isAsking = true;
    clearTimeout(waiting);
    const asked = settings();
    const slow = setTimeout(() => say(state.dataset.busy), PATIENCE_MS);
    try {
      const answer = await fetch(`${location.pathname}?${asked}`, { credentials: "same-origin", cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const parts = [...document.querySelectorAll("[data-drawn]")].map((part) => [part, document.importNode(page.getElementById(part.id), true)]);
      const pictures = parts.flatMap(([, fresh]) => [...fresh.querySelectorAll("img")]);
      await Promise.all(pictures.map((picture) => picture.decode()));
      // What has been moved meanwhile is asked for below: only the last answer is shown.
      if (!isOutdated) {
        for (const [part, fresh] of parts) replacePart(part, fresh);
        keepAddress(asked);
      }
      clearTimeout(slow);
      say("");
    } catch {
      say(state.dataset.lost, "alert");
    }
    clearTimeout(slow);
    isAsking = false;
    if (isOutdated) { isOutdated = false; ask(); }
  };

  // The choice of a reader belongs to the form and stands outside it.
  document.addEventListener("input", (event) => {
    if (event.target.type === "range") showNumber(event.target);
    clearTimeout(waiting);
    // Who an explanation is for changes nothing that is drawn.
    if (event.target.type === "radio") keepAddress(settings());
    else {
      // An answer on its way is to an earlier question from now on.
      isOutdated = isAsking;
      waiting = setTimeout(ask, REST_MS);
    }
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); ask(); });
  document.querySelectorAll("input[type=range]").forEach(showNumber);
  // Drawn as one moves: the button is for readers without scripts.
  document.getElementById("show").hidden = true;
})();
