"use strict";
(() => {
  const root = document.documentElement;
  const overview = document.getElementById("overview");
  const pages = [...document.querySelectorAll(".participant")];
  const jump = document.getElementById("jump");
  const tip = document.getElementById("tip");
  const title = document.title;

  // One page at a time: the overview, or the participant that the address names.
  function route() {
    const wanted = location.hash.slice(1);
    const page = pages.find((one) => one.id === wanted);
    overview.hidden = Boolean(page);
    for (const one of pages) one.hidden = one !== page;
    jump.value = page ? page.id : "summary";
    document.title = page ? `${page.querySelector(".who").textContent} · ${title}` : title;
    root.dataset.page = page ? page.id : "overview";
    if (page) window.scrollTo(0, 0);
    else if (wanted) document.getElementById(wanted)?.scrollIntoView();
  }
  jump.addEventListener("change", () => { location.hash = jump.value; });
  window.addEventListener("hashchange", route);
  route();

  // The legend shows and hides an algorithm in every chart.
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const drawn of document.querySelectorAll("svg [data-name]"))
        if (drawn.dataset.name === button.dataset.name) drawn.classList.toggle("off", !shown);
    });
  }

  function show(event, lines) {
    tip.replaceChildren(...lines.map(([text, colour]) => {
      const line = document.createElement("div");
      if (colour !== undefined) {
        const key = document.createElement("span");
        key.className = `key c${colour}`;
        line.append(key);
      }
      line.append(text);
      return line;
    }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 16 + box.width < innerWidth;
    tip.style.left = `${Math.max(4, right ? event.clientX + 16 : event.clientX - 16 - box.width)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 4))}px`;
  }
  const hide = () => { tip.hidden = true; };

  // Where the pointer is, in the drawing's own measure.
  function place(svg, event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [at.x, at.y];
  }

  const curves = JSON.parse(document.getElementById("curve-data").textContent);
  for (const svg of document.querySelectorAll("#rounds svg.curves")) {
    const { low, high, left, right } = Object.fromEntries(Object.entries(svg.dataset).map(([k, v]) => [k, Number(v)]));
    const cursor = svg.querySelector(".cursor");
    svg.addEventListener("pointermove", (event) => {
      const [x] = place(svg, event);
      const wanted = low + (x - left) / (right - left) * (high - low);
      let at = 0;
      curves.rounds.forEach((round, index) => {
        if (Math.abs(round - wanted) < Math.abs(curves.rounds[at] - wanted)) at = index;
      });
      const round = curves.rounds[at];
      const line = left + (high > low ? (round - low) / (high - low) : 0.5) * (right - left);
      cursor.setAttribute("x1", line);
      cursor.setAttribute("x2", line);
      const off = new Set([...document.querySelectorAll('.legend [aria-pressed="false"]')].map((b) => b.dataset.name));
      const values = curves.lines.filter((one) => one.values[at] !== null && !off.has(one.name))
        .sort((a, b) => b.values[at] - a.values[at]);
      show(event, [[`Round ${round}`], ...values.map((one) => [`${one.name} ${one.values[at].toFixed(2)} %`, one.colour])]);
    });
    svg.addEventListener("pointerleave", () => { hide(); cursor.setAttribute("x1", -9); cursor.setAttribute("x2", -9); });
  }

  for (const svg of document.querySelectorAll("svg.heat")) {
    const { names, weights } = JSON.parse(document.getElementById(svg.dataset.source).textContent);
    const [left, top, side] = [svg.dataset.left, svg.dataset.top, svg.dataset.side].map(Number);
    const cell = side / names.length;
    const cursor = svg.querySelector(".cell-cursor");
    const away = () => { hide(); cursor.setAttribute("x", -999); };
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = place(svg, event);
      const [column, row] = [Math.floor((x - left) / cell), Math.floor((y - top) / cell)];
      if (!(row in names) || !(column in names)) return away();
      cursor.setAttribute("x", left + column * cell);
      cursor.setAttribute("y", top + row * cell);
      const weight = weights[row][column].toFixed(3);
      show(event, [[row === column ? `${names[row]} keeps ${weight} of its own` : `${names[row]} takes ${weight} from ${names[column]}`]]);
    });
    svg.addEventListener("pointerleave", away);
  }
})();
