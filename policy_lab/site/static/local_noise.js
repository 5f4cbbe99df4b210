// Local noise in the browser alone: laws, draws and what would be sent, by the formulas of policy_lab/figures/form_law.py.
"use strict";

(() => {
  const words = JSON.parse(document.getElementById("words").textContent);
  const code = document.documentElement.lang;
  const byId = (id) => document.getElementById(id);
  const fields = [...document.querySelectorAll("[data-field]")];
  const epsilonSlider = byId("epsilon");
  const peopleSlider = byId("people");
  const lookedAt = byId("looked-at");
  const EPSILONS = [0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20];
  const PEOPLE = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
  const LIKE_YOU = 1000;
  // The share that a survey is to find, and how far from it a normal error stays 19 times out of 20.
  const SHARE = 0.2;
  const QUANTILE = 1.959964;

  const said = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (_, key) => values[key]);
  // One for each number of digits: making it takes far longer than writing a number.
  const formats = [0, 1, 2].map((digits) =>
    new Intl.NumberFormat(`${code}-CA`, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const figure = (value, digits = 0) => formats[digits].format(Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value);
  const percent = (share, digits = 2) => figure(100 * share, digits) + (code === "fr" ? "\u00a0%" : "%");
  // Rounded up, so that it never understates; what is a rounding error of the computation itself is not rounded up.
  const atMost = (share) => percent(Math.min(1, Math.ceil(share * 1e4 - 1e-7) / 1e4));

  // --- randomness ---------------------------------------------------------------------------------------------------

  const pool = new Uint32Array(8192);
  let taken = pool.length;

  const word = () => {
    if (taken === pool.length) { crypto.getRandomValues(pool); taken = 0; }
    return pool[taken++];
  };
  // Between 0 and 1, both excluded.
  const uniform = () => (word() + 0.5) / 2 ** 32;

  // --- laws -----------------------------------------------------------------------------------------------------------

  // One of k answers is kept, or another one is sent.
  const choice = (k, own, epsilon) => {
    const keep = Math.exp(epsilon) / (Math.exp(epsilon) + k - 1);
    const other = (1 - keep) / (k - 1);
    const others = Array.from({ length: k }, (_, place) => place).filter((place) => place !== own);
    return {
      chances: Array.from({ length: k }, (_, place) => (place === own ? keep : other)),
      sent: (u) => (u < keep ? own : others[Math.min(Math.floor((u - keep) / (1 - keep) * others.length), others.length - 1)]),
      // The standard error of an estimated share, for a share of the people that is known.
      error: (share, people) =>
        Math.sqrt((share * keep * (1 - keep) + (1 - share) * other * (1 - other)) / people) / (keep - other),
    };
  };

  // A number gets Laplace noise, is brought back to the nearer bound, and is rounded.
  const number = (low, high, own, epsilon) => {
    const scale = (high - low) / epsilon;
    const laplace = (u) => Math.sign(u - 0.5) * scale * -Math.log(1 - 2 * Math.abs(u - 0.5));
    const below = (x) => (x < 0 ? Math.exp(x / scale) / 2 : 1 - Math.exp(-x / scale) / 2);
    const values = Array.from({ length: high - low + 1 }, (_, place) => low + place);
    const edges = [0, ...values.slice(0, -1).map((value) => below(value + 0.5 - own)), 1];
    const chances = values.map((_, place) => edges[place + 1] - edges[place]);
    return {
      scale, chances,
      mean: values.reduce((sum, value, place) => sum + value * chances[place], 0),
      sent: (u) => Math.floor(Math.min(Math.max(own + laplace(u), low), high) + 0.5),
    };
  };

  // --- fields ---------------------------------------------------------------------------------------------------------

  const labelOf = (field) => document.querySelector(`label[for="${field.id}"]`).textContent;
  const isChoice = (field) => field.tagName === "SELECT";
  const isRight = (field) => isChoice(field) || (field.value !== "" && field.checkValidity());
  const wholeEpsilon = () => EPSILONS[Number(epsilonSlider.value)];

  // One field with its noise: what may be sent instead, how often, and in which cells it is shown.
  const noiseOf = (field) => {
    const epsilon = wholeEpsilon() / fields.length;
    if (isChoice(field)) {
      const labels = [...field.options].map((option) => option.text);
      const law = choice(labels.length, field.selectedIndex, epsilon);
      const say = (place) => labels[place];
      return { ...law, epsilon, say, keep: law.chances[field.selectedIndex], own: field.selectedIndex, shown: say(field.selectedIndex), cells: labels.map((label, place) => ({ label, from: place, to: place })), first: 0 };
    }
    const [low, high, own, unit] = [Number(field.min), Number(field.max), Number(field.value), field.dataset.unit];
    const law = number(low, high, own, epsilon);
    const say = (value) => said("withUnit", { value: figure(value), unit });
    // A value that the noise carries past a bound is counted there: the bounds are cells of their own.
    const cells = [{ label: say(low), from: low, to: low }];
    const step = Math.round((high - low) / 10);
    for (let from = low + 1; from < high; from += step) {
      const to = Math.min(from + step - 1, high - 1);
      cells.push({ label: said("between", { low: figure(from), high: figure(to), unit }), from, to });
    }
    cells.push({ label: say(high), from: high, to: high });
    return { ...law, epsilon, say, keep: law.chances[own - low], own, range: high - low, unit, shown: say(own), cells, first: low };
  };

  // --- step 2 ---------------------------------------------------------------------------------------------------------

  const element = (name, text = "", attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  const drawn = (share, seen, most) => {
    const SVG = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(SVG, "svg");
    const put = (name, attributes) => {
      const shape = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
      picture.append(shape);
    };
    for (const [key, value] of Object.entries({ class: "stroke", width: "100%", height: "1.4rem" })) picture.setAttribute(key, value);
    put("rect", { class: "fill", x: 0, y: "15%", width: `${100 * share / most}%`, height: "70%" });
    put("line", { class: "seen-halo", x1: `${100 * seen / most}%`, x2: `${100 * seen / most}%`, y1: "0", y2: "100%" });
    put("line", { class: "seen", x1: `${100 * seen / most}%`, x2: `${100 * seen / most}%`, y1: "0", y2: "100%" });
    return picture;
  };

  const showLaw = (noise) => {
    const cellOf = (value) => noise.cells.findIndex(({ from, to }) => from <= value && value <= to);
    const counts = noise.cells.map(() => 0);
    for (let each = 0; each < LIKE_YOU; each++) counts[cellOf(noise.sent(uniform()))] += 1;
    const shares = noise.cells.map(({ from, to }) =>
      noise.chances.slice(from - noise.first, to - noise.first + 1).reduce((sum, chance) => sum + chance, 0));
    const most = Math.max(...shares, ...counts.map((count) => count / LIKE_YOU));
    byId("law-caption").textContent = said("caption", { answer: noise.shown });
    byId("law").tBodies[0].replaceChildren(...noise.cells.map(({ label }, place) => {
      const row = element("tr");
      const head = element("th", label, { scope: "row" });
      if (place === cellOf(noise.own)) {
        row.className = "own";
        head.append(" ", element("span", said("yours"), { class: "tag" }));
      }
      const picture = element("td", "", { class: "drawn", "aria-hidden": "true" });
      picture.append(drawn(shares[place], counts[place] / LIKE_YOU, most));
      row.append(head, element("td", percent(shares[place]), { class: "number" }), element("td", figure(counts[place]), { class: "number" }), picture);
      return row;
    }));
  };

  const showFigures = (noise) => {
    const isNumber = noise.scale !== undefined;
    for (const part of document.querySelectorAll("[data-number]")) part.hidden = !isNumber;
    const sureness = (epsilon) => atMost(1 / (1 + Math.exp(-epsilon)));
    byId("figure-epsilon").textContent = figure(noise.epsilon, 2);
    byId("figure-total").textContent = figure(wholeEpsilon(), 1);
    byId("figure-keep").textContent = percent(noise.keep);
    byId("belief").textContent = said("belief", { share: sureness(noise.epsilon) });
    byId("all-belief").textContent = said("allBelief", { share: sureness(wholeEpsilon()) });
    if (isNumber) {
      const { unit } = noise;
      const off = noise.mean - noise.own;
      byId("figure-sensitivity").textContent = said("range", { value: figure(noise.range), unit });
      byId("figure-scale").textContent = said("withUnit", { value: figure(noise.scale, 1), unit });
      byId("figure-mean").textContent = said("withUnit", { value: figure(noise.mean, 2), unit });
      byId("crowd").textContent = said(Math.abs(off) < 0.005 ? "right" : off < 0 ? "tooLittle" : "tooMuch", { value: noise.shown, unit, difference: figure(Math.abs(off), 2) });
    } else {
      const people = PEOPLE[Number(peopleSlider.value)];
      const margin = QUANTILE * noise.error(SHARE, people);
      byId("figure-sensitivity").textContent = said("oneAnswer");
      byId("crowd").textContent = said(margin < SHARE ? "crowd" : "noUse", { people: figure(people), margin: figure(100 * margin, 2) });
    }
  };

  // --- step 3 ---------------------------------------------------------------------------------------------------------

  let message = null;

  const showSent = (noises) => {
    const rows = fields.map((field, place) => {
      const noise = noises[place];
      return { label: labelOf(field), noise, sent: noise && noise.say(noise.sent(uniform())) };
    });
    byId("sent").tBodies[0].replaceChildren(...rows.map(({ label, noise, sent }) => {
      const row = element("tr", "", { role: "row" });
      const cell = (name, text, head) => {
        const made = element(name, "", { role: name === "th" ? "rowheader" : "cell", "data-head": said(head) });
        if (name === "th") made.setAttribute("scope", "row");
        const inside = element("span", text);
        made.append(inside);
        row.append(made);
        return inside;
      };
      cell("th", label, "question");
      cell("td", noise ? noise.shown : "–", "answer");
      const after = cell("td", noise ? sent : "–", "sent");
      cell("td", noise ? figure(noise.epsilon, 2) : "–", "epsilon");
      if (noise && sent !== noise.shown) {
        row.className = "changed";
        after.append(" ", element("span", said("isChanged"), { class: "tag" }));
      }
      return row;
    }));
    const isWhole = rows.every(({ noise }) => noise);
    const changed = rows.filter(({ noise, sent }) => noise && sent !== noise.shown).length;
    const name = changed === 0 ? "changedNone" : changed === 1 ? "changedOne" : "changedMany";
    byId("changed").textContent = isWhole ? said(name, { n: figure(changed), all: figure(rows.length) }) : "";
    byId("download").disabled = !isWhole;
    // Nothing here tells what the answers were.
    message = isWhole && {
      answers: rows.map(({ label, noise, sent }) => ({ question: label, sent, epsilon: noise.epsilon })),
      epsilon: wholeEpsilon(),
    };
  };

  const show = () => {
    for (const field of fields.filter((each) => !isChoice(each))) {
      const hint = byId(`${field.id}-hint`);
      hint.dataset.usual ??= hint.textContent;
      const right = isRight(field);
      field.setAttribute("aria-invalid", String(!right));
      hint.textContent = right ? hint.dataset.usual : said("outside", { low: field.min, high: field.max });
      hint.className = right ? "small" : "alert";
    }
    byId("epsilon-shown").textContent = figure(wholeEpsilon(), 1);
    epsilonSlider.setAttribute("aria-valuetext", figure(wholeEpsilon(), 1));
    const people = figure(PEOPLE[Number(peopleSlider.value)]);
    byId("people-shown").textContent = people;
    peopleSlider.setAttribute("aria-valuetext", people);
    const noises = fields.map((field) => (isRight(field) ? noiseOf(field) : null));
    const looked = noises[fields.findIndex((field) => field.id === lookedAt.value)];
    if (looked) {
      showLaw(looked);
      showFigures(looked);
    }
    showSent(noises);
  };

  const makeUp = () => {
    for (const field of fields) {
      if (isChoice(field)) field.selectedIndex = Math.floor(uniform() * field.options.length);
      else {
        // Two draws: people in the middle are more usual.
        const [low, high] = [Number(field.min), Number(field.max)];
        field.value = low + Math.floor((uniform() + uniform()) / 2 * (high - low + 1));
      }
    }
    show();
  };

  document.addEventListener("input", show);
  byId("somebody").addEventListener("click", makeUp);
  byId("again").addEventListener("click", show);
  byId("download").addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([`${JSON.stringify(message, null, 2)}\n`], { type: "application/json" }));
    element("a", "", { href: address, download: "what-would-be-sent.json" }).click();
    URL.revokeObjectURL(address);
  });
  makeUp();
})();
