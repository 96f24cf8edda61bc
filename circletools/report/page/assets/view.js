// --- view: the graph on a canvas, with what is outside left out ----------------------------------------------

const OVERVIEW_WIDTH = 26;

function mixed(color, over, part) {
  const channel = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
  const one = (at) => Math.round(channel(color, at) * part + channel(over, at) * (1 - part));
  return `rgb(${one(1)}, ${one(3)}, ${one(5)})`;
}

class GraphView {
  constructor() {
    this.pictures = new Map();
    this.scale = 1;
    this.origin = { x: 0, y: 0 };
    this.colorBy = 'device';
    this.names = new Map();
    this.highlighted = null;
    this.pending = false;
  }

  /** Build the panel. */
  panel() {
    this.canvas = make('canvas', {
      id: 'canvas', tabindex: 0, role: 'application', 'aria-roledescription': 'graph',
      'aria-label': 'Graph of operators. Arrow keys go to readers, feeders and neighbours; Enter to the details; '
        + 'C folds the partition; plus and minus zoom; 0 shows all.',
    });
    this.overview = make('canvas', { id: 'overview', 'aria-hidden': 'true' });
    this.chooser = subgraphs.length < 2 ? null : make('select', { id: 'subgraph', 'aria-label': 'Subgraph', onchange: () => {
      select(null);
      this.show(Number(this.chooser.value));
      this.home();
    } }, subgraphs.map((one) => make('option', { value: one.index }, `${one.index} ${tail(one.facts.name, 40)}`)));
    const ways = [['device', 'device'], ['time', 'time'], ['code', 'operator code']]
      .filter(([way]) => (way !== 'time' || operatorTimes()) && (way !== 'device' || devices.length));
    this.colorBy = ways[0][0];
    const color = make('select', { id: 'color', 'aria-label': 'Colour by', onchange: () => {
      this.colorBy = color.value;
      this.recolor();
    } }, ways.map(([way, title]) => make('option', { value: way }, `Colour: ${title}`)));
    this.folders = [['Fold all', true], ['Unfold all', false]].map(([title, folded]) =>
      make('button', { type: 'button', onclick: () => { this.picture.foldAll(folded); this.home(); } }, title));
    this.legend = make('div', { id: 'legend' });
    this.#listen();
    return make('div', { class: 'panel', id: 'graph' }, this.canvas, this.overview,
      make('div', { id: 'tools' }, this.chooser, color,
        make('button', { type: 'button', 'aria-label': 'Zoom in', onclick: () => this.zoom(1.25) }, '+'),
        make('button', { type: 'button', 'aria-label': 'Zoom out', onclick: () => this.zoom(0.8) }, '−'),
        make('button', { type: 'button', onclick: () => this.fit() }, 'Show all'),
        this.folders),
      this.legend);
  }

  get picture() {
    return this.pictures.get(state.subgraph);
  }

  show(index) {
    state.subgraph = index;
    if (this.chooser) this.chooser.value = index;
    if (!this.pictures.has(index)) this.pictures.set(index, new Picture(subgraphs[index]));
    for (const folder of this.folders) folder.hidden = subgraphs[index].layout.groups.length < 2;
    this.recolor();
  }

  // --- where one looks ---

  get size() {
    return { width: this.canvas.clientWidth - OVERVIEW_WIDTH, height: this.canvas.clientHeight };
  }

  /** Show all where that can be read, else the beginning. */
  home() {
    this.fit();
    if (this.scale < 0.5) {
      this.scale = 0.8;
      const frame = this.picture.frames[0] ?? { x: 0, width: 0, y: 0 };
      this.origin = { x: frame.x + frame.width / 2 - this.size.width / 2 / this.scale, y: -70 / this.scale };
      this.draw();
    }
  }

  fit() {
    const { left, right, height } = this.picture;
    const { width: w, height: h } = this.size;
    this.scale = Math.min(1.25, w / (right - left + 60), h / (height + 120));
    this.origin = { x: (left + right) / 2 - w / 2 / this.scale, y: height / 2 - h / 2 / this.scale };
    this.draw();
  }

  zoom(factor, at = { x: this.size.width / 2, y: this.size.height / 2 }) {
    const scale = Math.min(4, Math.max(0.002, this.scale * factor));
    this.origin.x += at.x / this.scale - at.x / scale;
    this.origin.y += at.y / this.scale - at.y / scale;
    this.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.origin.x += dx / this.scale;
    this.origin.y += dy / this.scale;
    this.draw();
  }

  /** Bring an operator into sight, unfolded. */
  reveal(operator) {
    const { picture } = this;
    if (!picture.visible(operator)) picture.fold(picture.subgraph.layout.group[operator], false);
    const { width, height } = this.size;
    if (this.scale < 0.4) this.scale = 0.8;
    const x = (picture.x[operator] + BOX.width / 2 - this.origin.x) * this.scale;
    const y = (picture.y[operator] + BOX.height / 2 - this.origin.y) * this.scale;
    if (x < 120 || x > width - 120 || y < 90 || y > height - 60) {
      this.origin.x += (x - width / 2) / this.scale;
      this.origin.y += (y - height / 2) / this.scale;
    }
    this.draw();
  }

  // --- what one does ---

  #listen() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener('pointerdown', (event) => {
      drag = { x: event.offsetX, y: event.offsetY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) {
        this.#hover(event);
        return;
      }
      const [dx, dy] = [drag.x - event.offsetX, drag.y - event.offsetY];
      if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      drag = { x: event.offsetX, y: event.offsetY, moved: true };
      this.pan(dx, dy);
    });
    canvas.addEventListener('pointerup', (event) => {
      if (drag && !drag.moved) this.#click(event);
      drag = null;
    });
    canvas.addEventListener('dblclick', (event) => {
      const hit = this.#under(event);
      if (hit && hit.group !== undefined) this.#fold(hit.group);
    });
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const pixels = event.deltaMode === 1 ? 24 : 1;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * pixels * 0.004), { x: event.offsetX, y: event.offsetY });
      else this.pan(event.shiftKey ? event.deltaY * pixels : event.deltaX * pixels, event.shiftKey ? 0 : event.deltaY * pixels);
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => this.#key(event));
    const jump = (event) => {
      if (event.buttons !== 1) return;
      this.origin.y = (event.offsetY / this.overview.clientHeight) * this.picture.height - this.size.height / 2 / this.scale;
      this.draw();
    };
    this.overview.addEventListener('pointerdown', jump);
    this.overview.addEventListener('pointermove', jump);
  }

  #under(event) {
    return this.picture.at(event.offsetX / this.scale + this.origin.x, event.offsetY / this.scale + this.origin.y);
  }

  #hover(event) {
    const hit = this.#under(event);
    this.canvas.style.cursor = hit ? 'pointer' : 'grab';
    this.canvas.title = hit && hit.operator !== undefined
      ? tail(`${this.picture.subgraph.label(hit.operator)}  ${this.picture.subgraph.output(hit.operator)}`, 200) : '';
  }

  #click(event) {
    const hit = this.#under(event);
    if (!hit) select(null, this);
    else if (hit.operator !== undefined) selectOperator(state.subgraph, hit.operator, this);
    else select({ kind: 'group', subgraph: state.subgraph, group: hit.group }, this);
  }

  #fold(group) {
    const before = this.picture.frames[group];
    this.picture.fold(group);
    const after = this.picture.frames[group];
    this.origin.x += after.x + after.width / 2 - before.x - before.width / 2;
    this.origin.y += after.y - before.y;
    this.draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selection } = state;
    const operator = selection && selection.kind === 'operator' ? selection.operator : null;
    const { key } = event;
    if (key.startsWith('Arrow')) {
      const next = operator === null ? 0 : this.picture.next(operator, key);
      if (next !== null && next < this.picture.subgraph.count) selectOperator(state.subgraph, next, 'keys');
    } else if (key === 'Enter') byId('details').focus();
    else if (key === '+' || key === '=') this.zoom(1.25);
    else if (key === '-') this.zoom(0.8);
    else if (key === '0') this.fit();
    else if (key === 'Home') this.home();
    else if (key === 'PageDown') this.pan(0, this.size.height * 0.8);
    else if (key === 'PageUp') this.pan(0, -this.size.height * 0.8);
    else if (key === 'c' && this.picture.framed && (operator !== null || selection?.kind === 'group')) {
      this.#fold(operator === null ? selection.group : this.picture.subgraph.layout.group[operator]);
    } else return;
    event.preventDefault();
  }

  // --- colours ---

  /** Work out the colour of every operator, in the theme's shades. */
  recolor() {
    const style = getComputedStyle(document.documentElement);
    this.theme = Object.fromEntries(['page', 'surface', 'line', 'text', 'quiet', 'accent', 'edge', 'cut', 'heat', 'none', 'error', 'warning']
      .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const { surface, heat, none } = this.theme;
    const { subgraph } = this.picture;
    const order = sums((one, operator) => one.code(operator)).map(([code]) => code);
    const palette = ['#9ecae9', '#ffbf79', '#88d27a', '#f2cf5b', '#ff9d98', '#d6a5c9', '#83bcb6', '#d8b5a5'];
    let most = 0;
    for (let operator = 0; operator < subgraph.count; operator++) most = Math.max(most, subgraph.time(operator) ?? 0);
    const strong = (operator) => {
      if (this.colorBy === 'device') {
        const device = subgraph.device(operator);
        return device === null ? none : devices[device].color;
      }
      if (this.colorBy === 'code') return palette[order.indexOf(subgraph.code(operator))] ?? none;
      return null;
    };
    const known = new Map();
    this.fill = [];
    this.stripe = [];
    for (let operator = 0; operator < subgraph.count; operator++) {
      const color = strong(operator);
      const part = color === null ? Math.round(20 * Math.sqrt((subgraph.time(operator) ?? 0) / (most || 1))) / 20 : 0.42;
      const key = `${color}${part}`;
      if (!known.has(key)) known.set(key, mixed(color ?? heat, surface, part));
      this.fill.push(known.get(key));
      this.stripe.push(color ?? known.get(key));
    }
    this.#explain(order, palette);
    this.draw();
  }

  #explain(order, palette) {
    const entry = (color, text) => make('span', {}, make('i', { class: 'swatch', background: color }), text);
    const entries = this.colorBy === 'device' ? devices.map(({ name, color }) => entry(color, tail(name, 30)))
      : this.colorBy === 'code' ? order.slice(0, palette.length).map((code, at) => entry(palette[at], tail(code, 30)))
        : [entry(mixed(this.theme.heat, this.theme.surface, 0.2), 'fast'), entry(this.theme.heat, 'slow')];
    if (this.picture.framed) entries.push(entry(this.theme.cut, 'cut'));
    this.legend.replaceChildren(...entries);
  }

  highlight(places) {
    this.highlighted = places && new Set(places.filter(([subgraph]) => subgraph === state.subgraph).map(([, operator]) => operator));
  }

  // --- drawing ---

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (this.canvas.clientWidth) this.#paint();
    });
  }

  #paint() {
    const ratio = window.devicePixelRatio || 1;
    const { canvas } = this;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const pen = canvas.getContext('2d');
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = this.theme.page;
    pen.fillRect(0, 0, width, height);
    const zoom = this.scale * ratio;
    pen.setTransform(zoom, 0, 0, zoom, -this.origin.x * zoom, -this.origin.y * zoom);
    this.sight = {
      left: this.origin.x, top: this.origin.y,
      right: this.origin.x + canvas.clientWidth / this.scale, bottom: this.origin.y + canvas.clientHeight / this.scale,
    };
    if (this.picture.framed) this.#frames(pen);
    this.#edges(pen);
    this.#operators(pen);
    this.#overview(ratio);
  }

  #seen(x, y, width, height) {
    const { left, top, right, bottom } = this.sight;
    return x + width >= left && x <= right && y + height >= top && y <= bottom;
  }

  #frames(pen) {
    const { picture, theme } = this;
    const { groups } = picture.subgraph.layout;
    picture.frames.forEach((frame, number) => {
      if (!this.#seen(frame.x, frame.y, frame.width, frame.height)) return;
      const { device, partition, operators } = groups[number];
      const color = device === null ? theme.none : devices[device].color;
      pen.fillStyle = mixed(color, theme.surface, picture.folded[number] ? 0.42 : 0.13);
      pen.strokeStyle = this.#isSelected('group', number) ? theme.accent : mixed(color, theme.quiet.length === 7 ? theme.quiet : '#808080', 0.75);
      pen.lineWidth = this.#isSelected('group', number) ? 3 : 1.2;
      pen.beginPath();
      pen.roundRect(frame.x, frame.y, frame.width, frame.height, 8);
      pen.fill();
      pen.stroke();
      if (this.scale < 0.2) return;
      pen.fillStyle = theme.text;
      pen.font = '600 12px system-ui, sans-serif';
      const title = partition === null ? 'no partition' : `partition ${partition}`;
      const sign = picture.folded[number] ? '▸' : '▾';
      pen.fillText(`${sign} ${title} · ${tail(deviceName(device), 30)} · ${counted(operators, 'operator')}`,
        frame.x + 10, frame.y + (picture.folded[number] ? 29 : 19), frame.width - 20);
    });
  }

  #isSelected(kind, number) {
    const { selection } = state;
    return selection !== null && selection.kind === kind && selection.subgraph === state.subgraph && selection[kind] === number;
  }

  #trace(pen, route) {
    const { x1, y1, x2, y2, lane } = route;
    pen.moveTo(x1, y1);
    const turn = (PITCH.y - BOX.height) * 0.9;
    if (this.scale < 0.12) {
      if (lane !== null) {
        pen.lineTo(lane, y1 + turn);
        pen.lineTo(lane, y2 - turn);
      }
      pen.lineTo(x2, y2);
    } else if (lane === null) {
      const bend = Math.max(12, Math.abs(y2 - y1) / 2);
      pen.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
    } else {
      pen.bezierCurveTo(x1, y1 + turn, lane, y1, lane, y1 + turn * 1.4);
      pen.lineTo(lane, y2 - turn * 1.4);
      pen.bezierCurveTo(lane, y2, x2, y2 - turn, x2, y2);
    }
  }

  #edges(pen) {
    const { theme, sight } = this;
    const { selection } = state;
    const chosen = selection && selection.kind === 'operator' && selection.subgraph === state.subgraph ? selection.operator : null;
    const kinds = { plain: [], cut: [], chosen: [] };
    for (const route of this.picture.routes) {
      const [low, high] = route.y1 < route.y2 ? [route.y1, route.y2] : [route.y2, route.y1];
      if (high < sight.top || low > sight.bottom) continue;
      const lane = route.lane ?? route.x1;
      if (Math.max(route.x1, route.x2, lane) < sight.left || Math.min(route.x1, route.x2, lane) > sight.right) continue;
      const of = chosen !== null && (route.source === chosen || route.target === chosen);
      kinds[of ? 'chosen' : route.cut ? 'cut' : 'plain'].push(route);
    }
    const thin = Math.max(1.1, 0.7 / this.scale);
    for (const [kind, color, thickness] of [['plain', theme.edge, thin], ['cut', theme.cut, thin * 1.3], ['chosen', theme.accent, thin * 2]]) {
      if (this.scale < 0.02 && kind === 'plain') continue;
      pen.strokeStyle = color;
      pen.lineWidth = thickness;
      pen.beginPath();
      for (const route of kinds[kind]) this.#trace(pen, route);
      pen.stroke();
      if (this.scale > 0.3) this.#arrows(pen, kinds[kind], color);
    }
  }

  #arrows(pen, routes, color) {
    pen.fillStyle = color;
    pen.beginPath();
    for (const { x2, y2 } of routes) {
      pen.moveTo(x2, y2);
      pen.lineTo(x2 - 4, y2 - 7);
      pen.lineTo(x2 + 4, y2 - 7);
      pen.closePath();
    }
    pen.fill();
  }

  #operators(pen) {
    const { picture } = this;
    for (let operator = 0; operator < picture.subgraph.count; operator++) {
      if (!picture.visible(operator) || !this.#seen(picture.x[operator], picture.y[operator], BOX.width, BOX.height)) continue;
      pen.globalAlpha = this.highlighted && !this.highlighted.has(operator) ? 0.3 : 1;
      this.#operator(pen, operator);
    }
    pen.globalAlpha = 1;
  }

  #operator(pen, operator) {
    const { picture, theme } = this;
    const [x, y] = [picture.x[operator], picture.y[operator]];
    const chosen = this.#isSelected('operator', operator);
    pen.fillStyle = this.scale < 0.25 ? this.stripe[operator] : this.fill[operator];
    if (this.scale < 0.25) {
      pen.fillRect(x, y, BOX.width, BOX.height);
    } else {
      pen.beginPath();
      pen.roundRect(x, y, BOX.width, BOX.height, 5);
      pen.fill();
      pen.strokeStyle = theme.line;
      pen.lineWidth = 1;
      pen.stroke();
      pen.fillStyle = this.stripe[operator];
      pen.fillRect(x, y + 3, 4, BOX.height - 6);
      this.#words(pen, operator, x, y);
    }
    if (chosen) {
      pen.strokeStyle = theme.accent;
      pen.lineWidth = Math.max(3, 2 / this.scale);
      pen.strokeRect(x - 2, y - 2, BOX.width + 4, BOX.height + 4);
    }
  }

  #words(pen, operator, x, y) {
    const { theme, picture: { subgraph } } = this;
    const trouble = findingsOf.get(`${subgraph.index}/${operator}`);
    pen.fillStyle = theme.text;
    pen.font = '600 12px system-ui, sans-serif';
    pen.fillText(tail(subgraph.code(operator), 22), x + 11, y + 17, BOX.width - 60);
    pen.font = '11px system-ui, sans-serif';
    pen.fillStyle = theme.quiet;
    pen.textAlign = 'right';
    pen.fillText(String(operator), x + BOX.width - (trouble ? 22 : 8), y + 17);
    if (trouble) {
      pen.fillStyle = trouble.some(({ severity }) => severity === 'error') ? theme.error
        : trouble.some(({ severity }) => severity === 'warning') ? theme.warning : theme.quiet;
      pen.fillText('●', x + BOX.width - 7, y + 17);
    }
    if (this.scale >= 0.45) {
      const time = subgraph.time(operator);
      pen.fillStyle = theme.quiet;
      if (time !== null) pen.fillText(duration(time / operatorTimes().executions), x + BOX.width - 8, y + 33);
      pen.textAlign = 'left';
      const room = time === null ? 29 : 19;
      if (!this.names.has(`${subgraph.index}/${operator}/${room}`)) {
        this.names.set(`${subgraph.index}/${operator}/${room}`, tail(subgraph.output(operator), room));
      }
      pen.fillText(this.names.get(`${subgraph.index}/${operator}/${room}`), x + 11, y + 33, time === null ? BOX.width - 20 : BOX.width - 76);
    }
    pen.textAlign = 'left';
  }

  /** The strip at the right: all operators from top to bottom, and where one looks. */
  #overview(ratio) {
    const { overview, picture, theme } = this;
    const [width, height] = [Math.round(OVERVIEW_WIDTH * ratio), Math.round(overview.clientHeight * ratio)];
    if (overview.width !== width || overview.height !== height) Object.assign(overview, { width, height });
    const pen = overview.getContext('2d');
    pen.fillStyle = theme.surface;
    pen.fillRect(0, 0, width, height);
    const scale = height / picture.height;
    const thick = Math.max(1, BOX.height * scale);
    for (let operator = 0; operator < picture.subgraph.count; operator++) {
      pen.fillStyle = this.stripe[operator];
      pen.fillRect(4 * ratio, picture.y[operator] * scale, width - 8 * ratio, thick);
    }
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 2 * ratio;
    const [top, bottom] = [Math.max(this.sight.top, 0), Math.min(this.sight.bottom, picture.height)];
    pen.strokeRect(ratio, top * scale, width - 2 * ratio, Math.max((bottom - top) * scale, 3 * ratio));
  }
}

const view = new GraphView();
