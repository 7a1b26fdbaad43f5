"use strict";
// Reads a chart out under the pointer and by arrow keys. The page says everything without it.
(() => {
  const data = JSON.parse(document.getElementById("chart-data").textContent);
  const out = document.querySelector(".readout");
  const number = new Intl.NumberFormat("en");

  const nearest = (rows, step) => {
    let low = 0, high = rows.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle][0] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - rows[low - 1][0] < rows[low][0] - step ? low - 1 : low;
  };

  for (const area of document.querySelectorAll("[data-chart]")) {
    const rows = data[area.dataset.chart];
    if (!rows || !rows.length || !out) continue;
    const low = Number(area.dataset.low), high = Number(area.dataset.high);
    const cross = document.createElement("div");
    cross.className = "cross";
    cross.hidden = true;
    area.append(cross);
    let at = rows.length - 1;

    const show = (index) => {
      at = Math.max(0, Math.min(rows.length - 1, index));
      const [step, average, loss, line] = rows[at];
      cross.style.left = `${(100 * (step - low)) / (high - low || 1)}%`;
      cross.hidden = false;
      out.hidden = false;
      out.textContent = `Step ${number.format(step)}: loss ${loss.toPrecision(6)}, EMA ` +
        `${average.toPrecision(6)}, line ${number.format(line)} of the ledger`;
    };

    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      show(nearest(rows, low + ((event.clientX - box.left) / box.width) * (high - low)));
    });
    area.addEventListener("pointerleave", () => { cross.hidden = true; });
    area.addEventListener("keydown", (event) => {
      if (event.target !== area) return;
      const far = event.shiftKey ? 20 : 1;
      const to = { ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: rows.length - 1 };
      if (event.key in to) {
        event.preventDefault();
        show(to[event.key]);
      }
    });
  }
})();
