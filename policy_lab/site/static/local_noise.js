// Local noise in the browser alone: laws, draws and what would be sent. The laws are those of policy_lab/mechanisms.
"use strict";

(() => {
  const words = JSON.parse(document.getElementById("words").textContent);
  const code = document.documentElement.lang;
  const byId = (id) => document.getElementById(id);
  const questions = [...document.querySelectorAll("[data-question]")];
  const epsilonSlider = byId("epsilon");
  const peopleSlider = byId("people");
  const lookedAt = byId("looked-at");
  const kind = byId("kind");
  const PEOPLE = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
  const LIKE_YOU = 1000;
  // The share that a survey is to find, and how far from it a normal error stays 19 times out of 20.
  const SHARE = 0.2;
  const QUANTILE = 1.959964;

  const said = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (_, key) => values[key]);
  const number = (value, digits = 0) =>
    new Intl.NumberFormat(`${code}-CA`, { minimumFractionDigits: digits, maximumFractionDigits: digits })
      .format(Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value);
  const percent = (share, digits = 2) => number(100 * share, digits) + (code === "fr" ? "\u00a0%" : "%");
  // Rounded up, so that it never understates; what is a rounding error of the computation itself is not rounded up.
  const atMost = (share) => percent(Math.min(1, Math.ceil(share * 1e4 - 1e-7) / 1e4));

  // --- randomness ---------------------------------------------------------------------------------------------------

  const pool = new Uint32Array(8192);
  let taken = pool.length;

  const word = () => {
    if (taken === pool.length) { crypto.getRandomValues(pool); taken = 0; }
    return pool[taken++];
  };
  // Evenly between 0 and 1, 53 bits.
  const uniform = () => ((word() >>> 5) * 2 ** 26 + (word() >>> 6)) / 2 ** 53;

  // --- a choice among k answers ---------------------------------------------------------------------------------------

  const choice = (k, epsilon) => {
    const keep = 1 / (1 + (k - 1) * Math.exp(-epsilon));
    const other = keep * Math.exp(-epsilon);
    return {
      epsilon, keep,
      law: (own) => Array.from({ length: k }, (_, each) => (each === own ? keep : other)),
      draw: (own) => (uniform() < keep ? own : (own + 1 + Math.floor(uniform() * (k - 1))) % k),
      // Of the estimated share, for a share of the people that is known.
      error: (share, people) => Math.sqrt(
        (share * keep * (1 - keep) + (1 - share) * other * (1 - other)) / people) / (-Math.expm1(-epsilon) * keep),
    };
  };

  // --- a number between bounds, on the unit u in 0 .. 1 with noise of scale 1 / epsilon -------------------------------

  const bounded = (epsilon, how) => {
    const side = (length) => -Math.expm1(-epsilon * length) / epsilon;
    const mass = (u, z) => side(u) + Math.sign(z - u) * side(Math.abs(z - u));
    const around = (distance) =>
      (-Math.expm1(-epsilon * distance) + Math.exp(-epsilon) * Math.expm1(epsilon * distance)) / (-2 * Math.expm1(-epsilon));
    // The mean distance of one side, times its mass.
    const moment = (length) => (1 - (1 + epsilon * length) * Math.exp(-epsilon * length)) / epsilon ** 2;
    const tail = (distance) => Math.exp(-epsilon * distance) / 2;
    const signed = () => {
      const u = uniform() - 0.5;
      return -Math.sign(u) * Math.log1p(-2 * Math.abs(u)) / epsilon;
    };
    const turn = (value) => value - Math.floor(value);
    const ways = {
      truncated: {
        epsilon,
        cdf: (u, z) => mass(u, z) / (side(u) + side(1 - u)),
        mean: (u) => u + (moment(1 - u) - moment(u)) / (side(u) + side(1 - u)),
        draw: (u) => {
          const isLeft = uniform() * (side(u) + side(1 - u)) < side(u);
          const distance = -Math.log1p(uniform() * Math.expm1(-epsilon * (isLeft ? u : 1 - u))) / epsilon;
          return Math.min(1, Math.max(0, isLeft ? u - distance : u + distance));
        },
      },
      clamped: {
        epsilon,
        cdf: (u, z) => (z >= u ? 1 - tail(z - u) : tail(u - z)),
        mean: (u) => u + Math.exp(-epsilon / 2) * Math.sinh(epsilon * (0.5 - u)) / epsilon,
        draw: (u) => Math.min(1, Math.max(0, u + signed())),
      },
      wrapped: {
        epsilon: Math.log1p(2 * Math.sinh(epsilon / 4) ** 2),
        cdf: (u, z) => (z >= u ? around(z - u) + 1 - around(1 - u) : around(turn(z - u)) - around(1 - u)),
        mean: (u) => turn(u) - 0.5 + around(1 - turn(u)),
        draw: (u) => turn(u + signed()),
      },
    };
    return ways[how];
  };

  // --- questions ------------------------------------------------------------------------------------------------------

  const labelOf = (field) => document.querySelector(`label[for="${field.id}"]`).textContent;
  const isChoice = (field) => field.tagName === "SELECT";
  const isRight = (field) => isChoice(field) || (field.value !== "" && field.checkValidity());

  // One question with its noise: what each answer may become, how often, and what it costs.
  const noiseOf = (field) => {
    const epsilon = Number(epsilonSlider.value);
    if (isChoice(field)) {
      const own = field.selectedIndex;
      const noise = choice(field.options.length, epsilon);
      const labels = [...field.options].map((option) => option.text);
      return { ...noise, own, labels, shown: labels[own], cells: noise.law(own), drawCell: () => noise.draw(own), send: () => labels[noise.draw(own)] };
    }
    const [low, high, step, unit] = [Number(field.min), Number(field.max), Number(field.dataset.cell), field.dataset.unit];
    const range = high - low;
    const noise = bounded(epsilon, kind.value);
    const u = (Number(field.value) - low) / range;
    const edges = Array.from({ length: range / step + 1 }, (_, place) => low + place * step);
    const below = edges.map((edge, place) =>
      place === 0 ? 0 : place === edges.length - 1 ? 1 : noise.cdf(u, (edge - low) / range));
    const cellOf = (z) => Math.min(edges.length - 2, Math.floor(z * range / step));
    return {
      epsilon: noise.epsilon, own: cellOf(u), range, scale: range / epsilon, mean: low + range * noise.mean(u),
      labels: edges.slice(0, -1).map((edge) => said("cell", { low: number(edge), high: number(edge + step) })),
      shown: `${number(Number(field.value))} ${unit}`,
      cells: below.slice(1).map((value, place) => value - below[place]),
      drawCell: () => cellOf(noise.draw(u)),
      send: () => `${number(Math.round(low + range * noise.draw(u)))} ${unit}`,
    };
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
    const counts = noise.cells.map(() => 0);
    for (let each = 0; each < LIKE_YOU; each++) counts[noise.drawCell()] += 1;
    const most = Math.max(...noise.cells, ...counts.map((count) => count / LIKE_YOU));
    byId("law-caption").textContent = said("caption", { answer: noise.shown });
    byId("law").tBodies[0].replaceChildren(...noise.cells.map((share, place) => {
      const row = element("tr");
      const head = element("th", noise.labels[place], { scope: "row" });
      if (place === noise.own) {
        row.className = "own";
        head.append(" ", element("span", said("yours"), { class: "tag" }));
      }
      const picture = element("td", "", { class: "drawn", "aria-hidden": "true" });
      picture.append(drawn(share, counts[place] / LIKE_YOU, most));
      row.append(head, element("td", percent(share), { class: "number" }), element("td", number(counts[place]), { class: "number" }), picture);
      return row;
    }));
  };

  const showFigures = (field, noise, total) => {
    const isNumber = !isChoice(field);
    byId("kind-field").hidden = !isNumber;
    for (const part of document.querySelectorAll("#figures [data-choice]")) part.hidden = isNumber;
    for (const part of document.querySelectorAll("#figures [data-number]")) part.hidden = !isNumber;
    const sureness = (epsilon) => atMost(1 / (1 + Math.exp(-epsilon)));
    byId("figure-epsilon").textContent = number(noise.epsilon, 3);
    byId("figure-total").textContent = number(total, 3);
    byId("belief").textContent = said("belief", { share: sureness(noise.epsilon) });
    byId("all-belief").textContent = said("allBelief", { share: sureness(total) });
    if (isNumber) {
      const name = kind.value === "wrapped" ? "halfRange" : "range";
      byId("figure-sensitivity").textContent = said(name, { range: number(kind.value === "wrapped" ? noise.range / 2 : noise.range) });
      byId("figure-scale").textContent = said("centimetres", { value: number(noise.scale, 1) });
      byId("figure-mean").textContent = said("centimetres", { value: number(noise.mean, 2) });
      const off = noise.mean - Number(field.value);
      byId("crowd").textContent = said(off < 0 ? "tooLittle" : "tooMuch", { height: noise.shown, difference: number(Math.abs(off), 2) });
    } else {
      byId("figure-sensitivity").textContent = said("oneAnswer");
      byId("figure-keep").textContent = percent(noise.keep);
      const people = PEOPLE[Number(peopleSlider.value)];
      const margin = QUANTILE * noise.error(SHARE, people);
      byId("crowd").textContent = said(margin < SHARE ? "crowd" : "noUse", { people: number(people), margin: number(100 * margin, 2) });
    }
  };

  // --- step 3 ---------------------------------------------------------------------------------------------------------

  let message = null;

  const showSent = (noises) => {
    const rows = questions.map((field, place) => ({ label: labelOf(field), noise: noises[place], sent: noises[place]?.send() }));
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
      cell("td", noise ? number(noise.epsilon, 3) : "–", "epsilon");
      if (noise && sent !== noise.shown) {
        row.className = "changed";
        after.append(" ", element("span", said("isChanged"), { class: "tag" }));
      }
      return row;
    }));
    const isWhole = rows.every(({ noise }) => noise);
    const changed = rows.filter(({ noise, sent }) => noise && sent !== noise.shown).length;
    const name = changed === 0 ? "changedNone" : changed === 1 ? "changedOne" : "changedMany";
    byId("changed").textContent = isWhole ? said(name, { n: number(changed), all: number(rows.length) }) : "";
    byId("download").disabled = !isWhole;
    // Nothing here tells what the answers were.
    message = isWhole && {
      answers: rows.map(({ label, noise, sent }) => ({ question: label, sent, epsilon: noise.epsilon })),
      epsilon: noises.reduce((sum, noise) => sum + noise.epsilon, 0),
    };
  };

  const show = () => {
    for (const field of questions.filter((each) => !isChoice(each))) {
      const hint = byId(`${field.id}-hint`);
      hint.dataset.usual ??= hint.textContent;
      const right = isRight(field);
      field.setAttribute("aria-invalid", String(!right));
      hint.textContent = right ? hint.dataset.usual : said("outside", { low: number(Number(field.min)), high: number(Number(field.max)) });
      hint.className = right ? "small" : "alert";
    }
    byId("epsilon-shown").textContent = number(Number(epsilonSlider.value), 1);
    const people = number(PEOPLE[Number(peopleSlider.value)]);
    byId("people-shown").textContent = people;
    peopleSlider.setAttribute("aria-valuetext", people);
    const noises = questions.map((field) => (isRight(field) ? noiseOf(field) : null));
    const place = questions.findIndex((field) => field.id === lookedAt.value);
    if (noises[place]) {
      showLaw(noises[place]);
      showFigures(questions[place], noises[place], noises.reduce((sum, noise) => sum + (noise?.epsilon ?? 0), 0));
    }
    showSent(noises);
  };

  const makeUp = () => {
    for (const field of questions) {
      if (isChoice(field)) field.selectedIndex = Math.floor(uniform() * field.options.length);
      else field.value = 150 + Math.floor(uniform() * 41);
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
