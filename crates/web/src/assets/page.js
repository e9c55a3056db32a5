// What pages do by themselves. They work without it, but for what moves.
"use strict";

// A choice that shows something at once.
for (const choice of document.querySelectorAll("[data-submit]")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
for (const button of document.querySelectorAll("[data-submits]")) {
  button.hidden = true;
}

// The key / leads to the search.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector("[type=search]");
  if (event.key === "/" && field && !event.target.closest("input, select, textarea")) {
    event.preventDefault();
    field.focus();
  }
});

// Follows a stream of events: each says what to do, and has HTML from the server behind it.
function follow(address, ended) {
  const source = new EventSource(address);
  source.onmessage = (message) => {
    const end = message.data.indexOf("\n");
    const [what, id] = (end < 0 ? message.data : message.data.slice(0, end)).split(" ");
    if (what === "end") {
      source.close();
      ended?.();
      return;
    }
    const html = message.data.slice(end + 1);
    const element = document.getElementById(id);
    if (!element) return;
    const at = element.scrollHeight - element.scrollTop - element.clientHeight;
    if (what === "put") element.innerHTML = html;
    if (what === "add") element.insertAdjacentHTML("beforeend", html);
    if (at < 8) element.scrollTop = element.scrollHeight;
    element.closest("[hidden]")?.removeAttribute("hidden");
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) ended?.();
  };
  return source;
}

// Searches while one types.
const search = document.querySelector("[data-search]");
if (search) {
  let source, timer, last;
  const start = () => {
    const query = new URLSearchParams(new FormData(search)).toString();
    if (query === last) return;
    last = query;
    source?.close();
    history.replaceState(null, "", "?" + query);
    for (const id of ["hits", "search-problems", "search-status"]) {
      document.getElementById(id).replaceChildren();
    }
    document.getElementById("search-hits").hidden = true;
    if (search.elements.q.value.trim()) source = follow(search.dataset.search + "?" + query);
  };
  last = new URLSearchParams(new FormData(search)).toString();
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(start, 150);
  });
  search.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    start();
  });
}

// Follows what a page is about, while somebody looks.
for (const element of document.querySelectorAll("[data-events]")) {
  let source;
  let over = false;
  const look = () => {
    if (document.hidden) {
      source?.close();
      source = undefined;
    } else if (!source && !over) {
      source = follow(element.dataset.events, () => { over = true; });
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
}
