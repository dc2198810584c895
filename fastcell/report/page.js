"use strict";

// Values of a column as numbers where they are numbers; what is missing comes last either way.
function compare(a, b, sign) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const numbers = Number(a) - Number(b);
  return sign * (Number.isNaN(numbers) ? a.localeCompare(b) : numbers);
}

function sortBy(name, descending) {
  const table = document.getElementById("cells");
  const value = (body) => body.querySelector(`[data-name="${name}"]`).dataset.value;
  const bodies = [...table.tBodies];
  bodies.sort((a, b) => compare(value(a), value(b), descending ? -1 : 1));
  table.append(...bodies);
  for (const button of table.querySelectorAll("[data-sort]")) {
    const order = descending ? "descending" : "ascending";
    button.parentElement.ariaSort = button.dataset.sort === name ? order : null;
  }
}

function find(words) {
  for (const body of document.getElementById("cells").tBodies) {
    body.hidden = !body.textContent.toLowerCase().includes(words.toLowerCase());
  }
}

async function copy(button) {
  const text = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(text); // no clipboard: what is selected can be copied by hand
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.sort) {
    sortBy(button.dataset.sort, button.parentElement.ariaSort === "ascending");
  } else if (button?.classList.contains("open")) {
    const more = button.closest("tbody").querySelector(".more");
    more.hidden = !more.hidden;
    button.ariaExpanded = String(!more.hidden);
  } else if (button?.classList.contains("copy")) {
    copy(button);
  }
});
document.getElementById("find")?.addEventListener("input", (event) => find(event.target.value));
