// Keeps the page of leadership serve up to date. It draws what page.html draws, from what the server sends, and text only as
// text: a candidate's value may be anything.
"use strict";
(() => {
	const body = document.body;
	const by = (id) => document.getElementById(id);
	const few = 10, mostChanges = 1000;
	const quiet = 25000; // ms without a word of the server, which sends one every 10 s
	let version = body.dataset.version;
	let skew = Number(body.dataset.now) - Date.now(); // from this machine's clock to the server's
	let heard = Date.now();
	let lost = 0; // since when there is no live connection
	let source = null;

	const el = (tag, attributes, ...children) => {
		const e = document.createElement(tag);
		for (const [name, value] of Object.entries(attributes)) {
			e.setAttribute(name, value);
		}
		e.append(...children); // strings become text
		return e;
	};
	const span = (name, text) => el("span", { class: name }, text);

	// short is Short of the server, of whole seconds.
	const short = (ms) => {
		const s = Math.max(0, Math.floor(ms / 1000));
		const div = (n) => Math.floor(s / n);
		if (s < 60) return s + " s";
		if (s < 3600) return div(60) + " min " + (s % 60) + " s";
		if (s < 48 * 3600) return div(3600) + " h " + (div(60) % 60) + " min";
		return div(86400) + " d " + (div(3600) % 24) + " h";
	};
	const two = (n) => String(n).padStart(2, "0");
	const at = (ms) => {
		const t = new Date(ms);
		return t.getFullYear() + "-" + two(t.getMonth() + 1) + "-" + two(t.getDate()) + " " +
			two(t.getHours()) + ":" + two(t.getMinutes()) + ":" + two(t.getSeconds());
	};
	const since = (ms, atLeast) => {
		const e = el("time", { datetime: new Date(ms).toISOString(), "data-since": ms });
		if (atLeast) {
			e.dataset.atLeast = "";
		}
		count(e);
		return e;
	};
	const count = (e) => {
		const atLeast = e.dataset.atLeast !== undefined || e.textContent.startsWith("≥");
		const text = (atLeast ? "≥ " : "") + short(Date.now() + skew - Number(e.dataset.since));
		if (e.textContent !== text) {
			e.textContent = text;
		}
	};

	const problem = (p) => {
		const what = el("span", {});
		if (p.election) what.append(el("a", { href: "#" + encodeURIComponent("e:" + p.election) }, p.election), " ");
		if (p.since) what.append(since(p.since, p.at_least), " ");
		if (p.text) what.append(span("text", p.text));
		return el("li", { class: p.level }, span("tag", p.what), " ", what);
	};
	const problems = (page) => {
		const list = page.problems.map(problem);
		if (list.length === 0) list.push(el("li", { class: "fine" }, span("tag", "nothing")));
		if (page.hidden) list.push(el("li", { class: "more" }, "and " + page.hidden + " more, which the elections below show"));
		by("problems").replaceChildren(...list);
		by("summary").textContent = page.summary;
		const n = page.problems.length + page.hidden;
		document.title = (n === 0 ? "" : n + (n === 1 ? " problem · " : " problems · ")) + body.dataset.store;
	};

	const queue = (r, open) => {
		if (r.size < 0) return span("faint", "not read yet");
		if (r.size === 0) return span("faint", "none stands");
		const summary = el("summary", {}, r.size + " in line");
		if (r.read) summary.append(", read ", since(r.read, false), " ago");
		const list = el("ol", {}, ...r.queue.map((b) =>
			el("li", {}, span("value", b.value), " ", span("marks", b.marks), " ", span("token", b.token))));
		if (r.size > r.queue.length) list.append(el("li", { class: "more" }, "and more: leadership ballots lists all"));
		return el("details", open ? { open: "" } : {}, summary, list);
	};
	const rows = () => by("elections").tBodies[0];
	const comesBefore = (a, b) => a.dataset.rank !== b.dataset.rank ? Number(a.dataset.rank) < Number(b.dataset.rank) : a.id < b.id;
	const row = (r) => {
		const old = by("e:" + r.name);
		const details = old && old.querySelector("details");
		const focused = old && old.contains(document.activeElement);
		const open = details ? details.open : rows().rows.length < few;
		const cell = (name, ...children) => el("td", { class: name }, ...children);
		const e = el("tr", { id: "e:" + r.name, class: r.level, "data-rank": r.rank },
			cell("state", span("tag", r.state)),
			el("th", { class: "name", scope: "row" }, r.name),
			cell("leader", r.leader || ""),
			cell("token", r.token || ""),
			cell("since", ...(r.since ? [since(r.since, r.at_least)] : [])),
			cell("changes", String(r.changes)),
			cell("queue", queue(r, open)));
		if (old && old.dataset.rank === e.dataset.rank) {
			old.replaceWith(e);
		} else {
			if (old) old.remove();
			rows().insertBefore(e, Array.from(rows().rows).find((other) => comesBefore(e, other)) || null);
		}
		e.hidden = !matches(e);
		const summary = e.querySelector("summary");
		if (focused && summary) summary.focus();
	};

	const change = (c) => {
		const leader = el("td", { class: "leader" }, c.leader ? c.leader : span("faint", "no leader"));
		if (c.at_start) leader.append(" ", span("faint", "found at the start"));
		const time = el("time", { datetime: new Date(c.time).toISOString(), "data-at": c.time }, at(c.time));
		const list = by("changes").tBodies[0];
		list.prepend(el("tr", {}, el("td", { class: "time" }, time), el("td", { class: "name" }, c.election),
			leader, el("td", { class: "gap" }, c.gap || "")));
		while (list.rows.length > mostChanges) list.lastElementChild.remove();
	};

	const matches = (e) => e.textContent.toLowerCase().includes(by("filter").value.toLowerCase());
	by("filter").hidden = false;
	by("filter").addEventListener("input", () => {
		for (const e of rows().rows) e.hidden = !matches(e);
	});

	const update = (u) => {
		skew = u.now - Date.now();
		if (u.all) {
			const known = new Set((u.rows || []).map((r) => "e:" + r.name));
			for (const e of Array.from(rows().rows)) if (!known.has(e.id)) e.remove();
			by("changes").tBodies[0].replaceChildren();
		}
		if (u.page) problems(u.page);
		for (const r of u.rows || []) row(r);
		for (const c of u.changes || []) change(c);
	};

	const show = (live) => {
		if (live === (lost === 0) && by("live").className !== "") return;
		lost = live ? 0 : Date.now();
		by("live").className = live ? "live" : "lost";
		by("live").textContent = live ? "live" : "not live since " + at(lost);
		if (by("lost")) by("lost").remove();
		if (!live) by("problems").prepend(el("li", { id: "lost", class: "critical" }, span("tag", "not live"), " ",
			el("span", {}, since(lost + skew, false), " ", span("text", "no word from leadership serve: what is shown is as of then"))));
	};
	const connect = () => {
		if (source) source.close();
		heard = Date.now();
		source = new EventSource("events?since=" + encodeURIComponent(version));
		source.onmessage = (e) => {
			version = e.lastEventId;
			heard = Date.now();
			update(JSON.parse(e.data));
			show(true);
		};
		source.onerror = () => {
			source.close();
			show(false);
			setTimeout(connect, 2000);
		};
	};
	connect();
	setInterval(() => {
		for (const e of document.querySelectorAll("time[data-since]")) count(e);
		if (Date.now() - heard > quiet) { // the connection is dead, or the machine was asleep
			show(false);
			connect();
		}
	}, 1000);
	for (const e of document.querySelectorAll("time[data-at]")) e.textContent = at(Number(e.dataset.at)); // in the browser's time zone
})();
