/* Charts: theme colours that follow a switch between light and dark, and links on the bars. The legend and the table
 * below a chart have the same links.
 */
"use strict";

(() => {
  function charts() {
    return [...document.querySelectorAll("canvas.chart")].map((canvas) => Chart.getChart(canvas)).filter(Boolean);
  }

  function paint() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    for (const chart of charts()) {
      for (const dataset of chart.data.datasets) {
        if (dataset.colour) dataset.backgroundColor = colour(dataset.colour);
      }
      for (const scale of Object.values(chart.options.scales)) {
        scale.ticks.color = colour("--chart-text");
        scale.grid.color = colour("--chart-grid");
        scale.border.display = false;
      }
      chart.update("none");
    }
  }

  /* The URL of the bar under the pointer. */
  function target(chart, event) {
    const [hit] = chart.getElementsAtEventForMode(event, "nearest", { intersect: true }, true);
    return hit && chart.data.datasets[hit.datasetIndex].links?.[hit.index];
  }

  window.addEventListener("load", () => {
    paint();
    new MutationObserver(paint).observe(document.documentElement, { attributeFilter: ["class"] });
    for (const chart of charts()) {
      chart.canvas.addEventListener("mousemove", (event) => {
        chart.canvas.style.cursor = target(chart, event) ? "pointer" : "";
      });
      chart.canvas.addEventListener("click", (event) => {
        const address = target(chart, event);
        if (address) window.location.assign(address);
      });
    }
  });
})();
