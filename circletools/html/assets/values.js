// --- values: names, numbers and elements -------------------------------------------------------------------------

// Control characters, marks that change the direction of text, and halves of surrogate pairs.
const UNSHOWABLE = new RegExp(
  [
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/,
    /[\ud800-\udbff](?![\udc00-\udfff])/,
    /(?<![\ud800-\udbff])[\udc00-\udfff]/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
);

/** Escape characters that cannot be shown or would affect other text; a lone \udcXX stands for the byte XX. */
function shown(name) {
  return name.replace(UNSHOWABLE, (letter) => {
    const code = letter.charCodeAt(0);
    const byte = code >= 0xdc80 && code <= 0xdcff ? code - 0xdc00 : code;
    return byte < 256 ? `\\x${byte.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`;
  });
}

/** The last `most` characters of a name, where names usually differ. */
function tail(name, most) {
  const text = shown(name);
  return text.length <= most ? text : `…${text.slice(1 - most).replace(/^[\udc00-\udfff]/, '')}`;
}

function counted(number, what, several = `${what}s`) {
  return `${number.toLocaleString('en')} ${number === 1 ? what : several}`;
}

function duration(ns) {
  if (ns === null || ns === undefined) return '–';
  for (const [unit, size] of [
    ['s', 1e9],
    ['ms', 1e6],
    ['µs', 1e3],
  ]) {
    if (ns >= size) return `${(ns / size).toFixed(ns >= 100 * size ? 0 : ns >= 10 * size ? 1 : 2)} ${unit}`;
  }
  return `${Number(ns.toFixed(ns < 10 ? 1 : 0))} ns`;
}

function bytes(count) {
  if (count === null) return 'unknown size';
  for (const [unit, size] of [
    ['GiB', 2 ** 30],
    ['MiB', 2 ** 20],
    ['KiB', 2 ** 10],
  ]) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count} B`;
}

function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)}%` : '–';
}

/**
 * Make an element. Strings become text, never markup. Attributes are named; `on…` are listeners, and `width` is the
 * width of the style, in percent.
 */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'width') element.style.width = `${value}%`;
    else if (name === 'background') element.style.background = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ''));
  return element;
}

const byId = (id) => document.getElementById(id);
const named = (name, tag = 'span') => make(tag, { class: 'name' }, shown(name));
const link = (text, action) => make('button', { type: 'button', class: 'link', onclick: action }, text);
/** A name on one line, cut at the front if it does not fit, since names differ mostly at the end. */
const front = (name) => make('span', { class: 'front', title: tail(name, 300) }, make('bdi', {}, tail(name, 160)));
const bar = (part, whole) =>
  make('div', { class: 'bar' }, make('i', { width: whole > 0 ? (100 * part) / whole : 0 }));

/** A table; columns are [title, 'number' | 'name' | ''], cells are text or elements. */
function table(columns, rows, caption) {
  const cell = (tag, content, kind) =>
    make(tag, { class: kind || null, scope: tag === 'th' ? 'col' : null }, content);
  return make(
    'table',
    { 'aria-label': caption },
    make(
      'thead',
      {},
      make(
        'tr',
        {},
        columns.map(([title, kind]) => cell(title ? 'th' : 'td', title, kind === 'number' ? kind : '')),
      ),
    ),
    make(
      'tbody',
      {},
      rows.map((row) =>
        make(
          'tr',
          {},
          row.map((content, at) => cell('td', content, columns[at][1])),
        ),
      ),
    ),
  );
}

/** A list of [term, what]; terms without a description are left out. */
function terms(facts) {
  const given = facts.filter(([, what]) => what);
  return make(
    'dl',
    {},
    given.map(([term, what]) => [make('dt', {}, term), make('dd', {}, what)]),
  );
}

/** A card can have keyboard focus while it can scroll. */
const scrolling = new ResizeObserver((seen) => {
  for (const { target } of seen) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute('tabindex');
  }
});

function card(title, ...contents) {
  const section = make('section', { class: 'card' }, make('h2', {}, title), contents);
  scrolling.observe(section);
  return section;
}
