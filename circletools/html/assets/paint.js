// --- paint: the visible part of the graph on a canvas ------------------------------------------------------------

const OVERVIEW_WIDTH = 26;

function mixed(color, over, part) {
  const channel = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
  const one = (at) => Math.round(channel(color, at) * part + channel(over, at) * (1 - part));
  return `rgb(${one(1)}, ${one(3)}, ${one(5)})`;
}

/** Paints a picture as seen from `origin` at `scale`. */
class GraphPainter {
  constructor() {
    this.index = 0;
    this.chosen = {};
    this.pictures = new Map();
    this.scale = 1;
    this.origin = { x: 0, y: 0 };
    this.names = new Map();
    this.highlighted = null;
    this.pending = false;
  }

  get picture() {
    return this.pictures.get(`${this.index}/${state.grouping}`);
  }

  // --- colors ---

  /** Compute the color of every operator, in the theme's shades. */
  recolor() {
    const style = getComputedStyle(document.documentElement);
    this.theme = Object.fromEntries(
      ['page', 'surface', 'line', 'text', 'quiet', 'accent', 'edge', 'cut', 'heat', 'none', 'error', 'warning'].map(
        (name) => [name, style.getPropertyValue(`--${name}`).trim()],
      ),
    );
    const { surface, heat } = this.theme;
    const { subgraph } = this.picture;
    let most = 0;
    for (let operator = 0; operator < subgraph.count; operator++) most = Math.max(most, subgraph.time(operator) ?? 0);
    const ways = colorings();
    const [, , way] = ways.find(([key]) => key === this.colorBy) ?? ways[0];
    const { of, legend } = way(subgraph, this.theme);
    const shade = document.documentElement.dataset.theme === 'dark' ? 0.3 : 0.42; // so that words stay legible
    const known = new Map();
    this.fill = [];
    this.stripe = [];
    for (let operator = 0; operator < subgraph.count; operator++) {
      const color = of(operator);
      const heated = Math.round(20 * Math.sqrt((subgraph.time(operator) ?? 0) / (most || 1))) / 20;
      const part = color === null ? 0.6 * heated : shade;
      const key = `${color}${part}`;
      if (!known.has(key)) known.set(key, mixed(color ?? heat, surface, part));
      this.fill.push(known.get(key));
      this.stripe.push(color ?? known.get(key));
    }
    if (this.picture.routes.some(({ cut }) => cut)) legend.push([this.theme.cut, 'cut']);
    this.legend.replaceChildren(
      ...legend.map(([color, text]) =>
        make('span', {}, make('i', { class: 'swatch', background: color }), text),
      ),
    );
    this.draw();
  }

  highlight(places) {
    this.highlighted =
      places && new Set(places.filter(([subgraph]) => subgraph === this.index).map(([, operator]) => operator));
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
      left: this.origin.x,
      top: this.origin.y,
      right: this.origin.x + canvas.clientWidth / this.scale,
      bottom: this.origin.y + canvas.clientHeight / this.scale,
    };
    if (this.picture.framed) this.#frames(pen);
    this.#edges(pen);
    if (this.picture.framed && this.scale >= 0.2) this.#titles(pen);
    this.#operators(pen);
    this.#overview(ratio);
  }

  #seen(x, y, width, height) {
    const { left, top, right, bottom } = this.sight;
    return x + width >= left && x <= right && y + height >= top && y <= bottom;
  }

  #frames(pen) {
    const { picture, theme } = this;
    const { groups } = picture.layout;
    picture.frames.forEach((frame, number) => {
      if (!this.#seen(frame.x, frame.y, frame.width, frame.height)) return;
      const { device } = groups[number];
      const color = device === null ? theme.none : devices[device].color;
      pen.fillStyle = this.#shade(device, picture.folded[number]);
      const chosen = this.chosen.group === number;
      pen.strokeStyle = chosen ? theme.accent : mixed(color, theme.quiet, 0.75);
      pen.lineWidth = chosen ? 3 : 1.2;
      pen.beginPath();
      pen.roundRect(frame.x, frame.y, frame.width, frame.height, 8);
      pen.fill();
      pen.stroke();
    });
  }

  /** Draw the titles of the frames over the edges that cross them. */
  #titles(pen) {
    const { picture, theme } = this;
    pen.font = '600 11px system-ui, sans-serif';
    picture.frames.forEach((frame, number) => {
      if (!this.#seen(frame.x, frame.y, frame.width, frame.height)) return;
      const { device, operators } = picture.layout.groups[number];
      const twist = picture.folded[number] ? '▸' : '▾';
      const title = `${twist} ${this.#named(number)} · ${counted(operators, 'operator')}`;
      const y = frame.y + (picture.folded[number] ? 28 : 18);
      pen.fillStyle = this.#shade(device, picture.folded[number]);
      pen.fillRect(frame.x + 8, y - 12, Math.min(pen.measureText(title).width + 4, frame.width - 16), 16);
      pen.fillStyle = theme.text;
      pen.fillText(title, frame.x + 10, y, frame.width - 20);
    });
  }

  #named(number) {
    const { device, partition, module } = this.picture.layout.groups[number];
    if (module !== null) return tail(pathOf(module), 60);
    if (this.picture.layout !== this.picture.subgraph.layouts[0] || doc.diff) return 'no module';
    return `${partition === null ? 'no partition' : `partition ${partition}`} · ${tail(deviceName(device), 30)}`;
  }

  #shade(device, folded) {
    return mixed(device === null ? this.theme.none : devices[device].color, this.theme.surface, folded ? 0.42 : 0.13);
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
    const { operator: chosen } = this.chosen;
    const kinds = { plain: [], cut: [], chosen: [] };
    for (const route of this.picture.routes) {
      const [low, high] = route.y1 < route.y2 ? [route.y1, route.y2] : [route.y2, route.y1];
      if (high < sight.top || low > sight.bottom) continue;
      const lane = route.lane ?? route.x1;
      if (Math.max(route.x1, route.x2, lane) < sight.left || Math.min(route.x1, route.x2, lane) > sight.right)
        continue;
      const of = chosen !== undefined && (route.source === chosen || route.target === chosen);
      kinds[of ? 'chosen' : route.cut ? 'cut' : 'plain'].push(route);
    }
    const thin = Math.max(1.1, 0.7 / this.scale);
    for (const [kind, color, thickness] of [
      ['plain', theme.edge, thin],
      ['cut', theme.cut, thin * 1.3],
      ['chosen', theme.accent, thin * 2],
    ]) {
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
      if (!picture.visible(operator) || !this.#seen(picture.x[operator], picture.y[operator], BOX.width, BOX.height))
        continue;
      pen.globalAlpha = this.highlighted && !this.highlighted.has(operator) ? 0.3 : 1;
      this.#operator(pen, operator);
    }
    pen.globalAlpha = 1;
  }

  #operator(pen, operator) {
    const { picture, theme } = this;
    const [x, y] = [picture.x[operator], picture.y[operator]];
    const chosen = this.chosen.operator === operator;
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
    const {
      theme,
      picture: { subgraph },
    } = this;
    const trouble = findingsOf.get(`${subgraph.index}/${operator}`);
    pen.fillStyle = theme.text;
    pen.font = '600 12px system-ui, sans-serif';
    pen.fillText(tail(subgraph.code(operator), 22), x + 11, y + 17, BOX.width - 60);
    pen.font = '11px system-ui, sans-serif';
    pen.fillStyle = theme.quiet;
    pen.textAlign = 'right';
    pen.fillText(String(operator), x + BOX.width - (trouble ? 22 : 8), y + 17);
    if (trouble) {
      pen.fillStyle = trouble.some(({ severity }) => severity === 'error')
        ? theme.error
        : trouble.some(({ severity }) => severity === 'warning')
          ? theme.warning
          : theme.quiet;
      pen.fillText('●', x + BOX.width - 7, y + 17);
    }
    if (this.scale >= 0.45) {
      const time = subgraph.time(operator);
      pen.fillStyle = theme.quiet;
      if (time !== null) pen.fillText(duration(time / operatorTimes().executions), x + BOX.width - 8, y + 33);
      pen.textAlign = 'left';
      const room = time === null ? 27 : 17;
      if (!this.names.has(`${subgraph.index}/${operator}/${room}`)) {
        this.names.set(`${subgraph.index}/${operator}/${room}`, tail(subgraph.output(operator), room));
      }
      pen.fillText(
        this.names.get(`${subgraph.index}/${operator}/${room}`),
        x + 11,
        y + 33,
        time === null ? BOX.width - 20 : BOX.width - 76,
      );
    }
    pen.textAlign = 'left';
  }

  /** Draw the strip at the right: all operators from top to bottom, and the visible part. */
  #overview(ratio) {
    const { overview, picture, theme } = this;
    const [width, height] = [Math.round(OVERVIEW_WIDTH * ratio), Math.round(overview.clientHeight * ratio)];
    if (overview.width !== width || overview.height !== height) Object.assign(overview, { width, height });
    const pen = overview.getContext('2d');
    pen.fillStyle = theme.surface;
    pen.fillRect(0, 0, width, height);
    const scale = height / picture.height;
    const thick = Math.max(1, BOX.height * scale);
    picture.frames.forEach((frame, number) => {
      if (!picture.folded[number]) return;
      const { device } = picture.layout.groups[number];
      pen.fillStyle = device === null ? theme.none : devices[device].color;
      pen.fillRect(4 * ratio, frame.y * scale, width - 8 * ratio, Math.max(1, frame.height * scale));
    });
    for (let operator = 0; operator < picture.subgraph.count; operator++) {
      if (!picture.visible(operator)) continue;
      pen.fillStyle = this.stripe[operator];
      pen.fillRect(4 * ratio, picture.y[operator] * scale, width - 8 * ratio, thick);
    }
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 2 * ratio;
    const [top, bottom] = [Math.max(this.sight.top, 0), Math.min(this.sight.bottom, picture.height)];
    pen.strokeRect(ratio, top * scale, width - 2 * ratio, Math.max((bottom - top) * scale, 3 * ratio));
  }
}
