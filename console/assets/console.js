'use strict';
// Live values, readouts of charts, and keys. Pages work without this file: only live values are missing then.
(() => {
  const $ = (s, r = document) => r.querySelector(s), $$ = (s, r = document) => [...r.querySelectorAll(s)];
  const root = document.documentElement, main = $('#main'), side = $('#side');

  // The theme that the visitor chose in this browser.
  try { const t = localStorage.getItem('dynalimit-theme'); if (t === 'light' || t === 'dark') root.dataset.theme = t; } catch { /* no storage */ }
  const theme = $('#theme'), menu = $('#menu');
  if (theme) {
    theme.hidden = false;
    theme.addEventListener('click', () => {
      const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme:dark)').matches;
      root.dataset.theme = dark ? 'light' : 'dark';
      try { localStorage.setItem('dynalimit-theme', root.dataset.theme); } catch { /* no storage */ }
    });
  }
  if (menu) {
    menu.hidden = false;
    menu.addEventListener('click', () => menu.setAttribute('aria-expanded', side.classList.toggle('open')));
  }

  // "/" searches.
  document.addEventListener('keydown', e => {
    if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT|TEXTAREA/.test(e.target.tagName)) return;
    const field = $('#q'), page = document.body.dataset.search;
    if (!field && !page) return;
    e.preventDefault();
    if (field) field.focus(); else location.href = page + '#q';
  });
  if (location.hash === '#q' && $('#q')) $('#q').focus();

  // The readout of a chart: its table has the numbers.
  const show = (svg, i) => {
    const plot = svg.parentNode, rows = $$('tbody tr', plot), row = rows[rows.length - 1 - i];
    if (!row) return;
    $$('g', svg).forEach(g => g.classList.toggle('on', +g.dataset.i === i));
    svg.dataset.at = i;
    const cells = $$('td', row), out = $('.read', plot), head = document.createElement('b');
    head.textContent = cells[0].textContent + ': ' + cells[cells.length - 1].textContent;
    out.replaceChildren(head, ' ' + row.dataset.read);
  };
  document.addEventListener('pointermove', e => {
    const g = e.target.closest && e.target.closest('.chart g');
    if (g) show(g.ownerSVGElement, +g.dataset.i);
  });
  document.addEventListener('keydown', e => {
    const svg = e.target.closest && e.target.closest('.chart');
    if (!svg || (e.key !== 'ArrowLeft' && e.key !== 'ArrowRight')) return;
    const n = $$('g', svg).length, at = svg.dataset.at === undefined ? n : +svg.dataset.at;
    show(svg, Math.max(0, Math.min(n - 1, at + (e.key === 'ArrowLeft' ? -1 : 1))));
    e.preventDefault();
  });

  // Live values: a poll returns cells. It stops in a hidden tab, and pauses after 30 minutes without input.
  const every = main ? +main.dataset.every : 0;
  if (!every) return;
  const live = $('#live'), text = $('#livetext'), dot = $('.dot', live), pause = $('#pause');
  let paused = false, wait = every, last = Date.now(), timer = 0;
  live.hidden = false;
  const say = (words, state) => { text.textContent = words; dot.className = 'dot ' + state; };
  const put = cells => {
    const by = new Map(cells.map(c => [c.k, c]));
    $$('[data-k]').forEach(x => { const c = by.get(x.dataset.k); if (!c) return; x.textContent = c.t; if (x.classList.contains('tag')) x.className = 'tag ' + c.c; });
    $$('[data-f]').forEach(x => {
      const c = by.get(x.dataset.f); if (!c) return;
      const bar = $('svg', x), fill = bar.children[1], number = $('b', x);
      fill.setAttribute('width', Math.max(0, Math.min(100, c.p)) + '%'); fill.setAttribute('class', c.c);
      if (number) number.textContent = c.p + ' %';
      bar.setAttribute('aria-label', bar.getAttribute('aria-label').replace(/: -?\d+ %/, ': ' + c.p + ' %'));
    });
  };
  const poll = async () => {
    timer = 0;
    if (paused || document.hidden) return;
    if (Date.now() - last > 30 * 60e3) { toggle(); return; }
    try {
      const answer = await fetch(main.dataset.poll, { headers: { Accept: 'application/json' }, redirect: 'error' });
      if (answer.status === 401 || answer.status === 403 || answer.status === 404) { say('ended: load the page anew', 'off'); paused = true; return; }
      if (!answer.ok) throw answer.status;
      const body = await answer.json();
      put(body.cells || []);
      wait = every;
      say(body.stale ? 'old values' : 'live, every ' + every + ' s', body.stale ? 'bad' : '');
    } catch (status) {
      wait = Math.min(120, wait * 2);
      say(status === 429 ? 'waits ' + wait + ' s' : 'no answer, tries again in ' + wait + ' s', 'bad');
    }
    next();
  };
  const next = () => { if (!timer && !paused) timer = setTimeout(poll, wait * 1000); };
  const toggle = () => {
    paused = !paused; clearTimeout(timer); timer = 0; last = Date.now();
    pause.textContent = paused ? 'Go on' : 'Pause';
    say(paused ? 'paused' : 'live, every ' + every + ' s', paused ? 'off' : '');
    if (!paused) poll();
  };
  pause.addEventListener('click', toggle);
  document.addEventListener('visibilitychange', () => { if (!document.hidden && !paused && !timer) poll(); });
  for (const kind of ['pointerdown', 'keydown', 'scroll']) addEventListener(kind, () => { last = Date.now(); }, { passive: true });
  next();
})();
