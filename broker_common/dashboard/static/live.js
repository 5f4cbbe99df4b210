// Keeps a page current: the server says that there is something newer, and the parts that may change are fetched again.
"use strict";

(() => {
  const state = document.getElementById("live-state");
  const pause = document.getElementById("live-pause");
  if (!state || !pause) return;
  const words = state.dataset;
  // Also without news: ages move on, sessions end, and a server may have no stream left for this page.
  const REFRESH_MS = 30000;
  // Between two refreshes, however fast news come.
  const REST_MS = 1000;
  const FOCUSABLE = "a[href], button, input, summary, [tabindex]";
  let shown = Number(document.body.dataset.version);
  let paused = false;
  let lost = false;
  let ended = false;
  let busy = false;
  let again = false;
  let news = null;

  const say = (text, kind) => {
    if (state.textContent !== text) state.textContent = text;
    state.className = kind;
  };

  const sayHow = () => {
    if (ended) say(words.endedText, "lost");
    else if (paused) say(words.pausedText, "paused");
    else if (lost) say(words.lostText, "lost");
    else if (news && news.readyState === EventSource.CLOSED) say(words.slowText, "slow");
    else say(words.liveText, "live");
  };

  const isBeingFilledIn = (part) => [...part.querySelectorAll("input")].some((field) =>
    field === document.activeElement || field.value !== field.defaultValue || field.checked !== field.defaultChecked);

  // Focus, opened details and scrolled tables stay as they are.
  const replacePart = (part, fresh) => {
    const newer = document.importNode(fresh, true);
    const details = part.querySelectorAll("details");
    newer.querySelectorAll("details").forEach((each, index) => { each.open = details[index]?.open ?? false; });
    if (newer.isEqualNode(part) || isBeingFilledIn(part)) return;
    const boxes = [...part.querySelectorAll(".scroll, pre")].map((each) => [each.scrollLeft, each.scrollTop]);
    const focused = [...part.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
    part.replaceWith(newer);
    newer.querySelectorAll(".scroll, pre").forEach((each, index) => each.scrollTo(...(boxes[index] ?? [0, 0])));
    if (focused >= 0) newer.querySelectorAll(FOCUSABLE)[focused]?.focus({ preventScroll: true });
  };

  const live = (page) => [...page.querySelectorAll("[data-live]")];
  const idsOf = (page) => live(page).map((part) => part.id).join(" ");

  const replaceAll = (fresh, selector) =>
    document.querySelector(selector).replaceChildren(...document.importNode(fresh.querySelector(selector), true).childNodes);

  const show = (fresh) => {
    shown = Number(fresh.body.dataset.version);
    const before = document.body.dataset.visitor;
    if (fresh.body.dataset.visitor !== before) {
      // Somebody has signed in, perhaps in another tab.
      if (!before) { location.reload(); return; }
      ended = true;
      document.body.dataset.visitor = fresh.body.dataset.visitor;
      for (const selector of [".top", "#visitor", "main"]) replaceAll(fresh, selector);
    } else if (idsOf(fresh) !== idsOf(document)) {
      replaceAll(fresh, "main");
    } else {
      for (const part of live(document)) replacePart(part, fresh.getElementById(part.id));
    }
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    if (paused || document.hidden || !document.querySelector("main [data-live]")) return;
    busy = true;
    try {
      const answer = await fetch(location.pathname, { credentials: "same-origin", cache: "no-store" });
      lost = !answer.ok && answer.status !== 403;
      const text = await answer.text();
      // Paused meanwhile: what somebody wants to hold still is not replaced.
      if (!lost && !paused) show(new DOMParser().parseFromString(text, "text/html"));
    } catch {
      lost = true;
    }
    sayHow();
    setTimeout(() => {
      busy = false;
      if (again) { again = false; refresh(); }
    }, REST_MS);
  };

  const listen = () => {
    news = new EventSource("/events");
    news.addEventListener("state", (event) => {
      const wasLost = lost;
      lost = false;
      sayHow();
      // After a loss also for the same number: the server may have been started again.
      if (wasLost || Number(event.data) !== shown) refresh();
    });
    news.addEventListener("error", () => {
      // The browser tries again by itself, unless the server has refused: then the next refresh does.
      lost = news.readyState !== EventSource.CLOSED;
      sayHow();
    });
  };

  const tick = () => {
    if (document.hidden) return;
    if (news.readyState === EventSource.CLOSED) listen();
    refresh();
  };

  listen();
  setInterval(tick, REFRESH_MS);
  // A browser has few connections to one server: a page that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) news.close();
    else tick();
  });

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? words.resumeText : words.pauseText;
    sayHow();
    if (!paused) refresh();
  });

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = button.dataset.copied;
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    }
  });
})();
