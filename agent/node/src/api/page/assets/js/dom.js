// The few things that are done to the page: elements are made once and only their texts
// change, so that focus, selection and a screen reader's place stay where they are.

/** The element with this id: the page's own HTML has it. */
export const byId = (id) => document.getElementById(id);

/** A new element with attributes and children (elements or texts). */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) {
      continue;
    }
    node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** Changes a text only where it is another one. */
export function text(node, value) {
  if (node.textContent !== value) {
    node.textContent = value;
  }
}

/** Sets an attribute only where it has another value; takes it away for null. */
export function attribute(node, name, value) {
  if (value === null || value === undefined) {
    if (node.hasAttribute(name)) {
      node.removeAttribute(name);
    }
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

/** Shows or hides. */
export function show(node, shown) {
  if (node.hidden === shown) {
    node.hidden = !shown;
  }
}

/**
 * Keeps the children of `parent` the same as `items`, by key and in order. `make` builds
 * the element of a new item, `change` brings one up to date.
 */
export function keyed(parent, items, key, make, change) {
  const known = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let node = known.get(name);
    known.delete(name);
    if (!node) {
      node = make(item);
      node.dataset.key = name;
    }
    if (node === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(node, place);
    }
    change(node, item);
  }
  for (const node of known.values()) {
    node.remove();
  }
}

/** Keeps the options of a select the same as `values` ([value, text]), and the choice if it is left. */
export function options(select, values, wanted) {
  const now = [...select.options].map((option) => `${option.value}\n${option.text}`).join("\n");
  const want = values.map(([value, label]) => `${value}\n${label}`).join("\n");
  if (now !== want) {
    select.replaceChildren(...values.map(([value, label]) => el("option", { value }, label)));
  }
  if (wanted !== undefined && select.value !== wanted && values.some(([value]) => value === wanted)) {
    select.value = wanted;
  }
}
