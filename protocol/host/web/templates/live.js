"use strict";
(() => {
  const line = document.getElementById("line");
  const show = (state, words) => {
    line.dataset.state = state;
    line.textContent = words;
  };
  // The browser reconnects by itself; a stream that it has given up is opened again.
  function follow() {
    const stream = new EventSource("events");
    stream.addEventListener("open", () => show("live", "live"));
    stream.addEventListener("parts", (event) => {
      show("live", "live");
      for (const [id, html] of Object.entries(JSON.parse(event.data))) {
        const part = document.getElementById(id);
        if (part) part.innerHTML = html;
      }
    });
    stream.addEventListener("error", () => {
      show("lost", "not connected");
      if (stream.readyState !== EventSource.CLOSED) return;
      stream.close();
      setTimeout(follow, 3000);
    });
  }
  follow();
})();
