// Finds titles, headings and names; without scripts the pages work as they are.
(function () {
  "use strict";
  var menu = document.querySelector(".menu");
  menu.open = matchMedia("(min-width: 60rem)").matches;

  var form = document.querySelector(".search");
  var input = form.querySelector("input");
  var list = form.querySelector(".results");
  var up = form.dataset.up;
  form.hidden = false;

  // A word counts more at the start of a title than within one, and there more than in
  // the name of the page, and least among the words of the section.
  function score(entry, words) {
    var title = entry[0].toLowerCase(), page = entry[1].toLowerCase(), sum = 0;
    for (var i = 0; i < words.length; i++) {
      var at = title.indexOf(words[i]);
      if (at === 0) sum += title.length === words[i].length ? 8 : 4;
      else if (at > 0) sum += /[a-z0-9]/.test(title[at - 1]) ? 1 : 3;
      else if (page.indexOf(words[i]) >= 0) sum += 0.5;
      else if (entry[3].indexOf(words[i]) >= 0) sum += 0.25;
      else return 0;
    }
    return sum + (entry[1] ? 0 : 0.75);
  }

  function show() {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    var found = [];
    if (words.length) {
      searchIndex.forEach(function (entry, i) {
        var s = score(entry, words);
        if (s > 0) found.push([s, i]);
      });
    }
    found.sort(function (a, b) { return b[0] - a[0] || a[1] - b[1]; });
    list.replaceChildren();
    found.slice(0, 12).forEach(function (f) {
      var entry = searchIndex[f[1]], item = document.createElement("li"), link = document.createElement("a");
      link.href = up + entry[2];
      link.textContent = entry[0];
      if (entry[1]) {
        var page = document.createElement("span");
        page.textContent = entry[1];
        link.append(page);
      }
      item.append(link);
      list.append(item);
    });
    if (words.length && !found.length) {
      var none = document.createElement("li");
      none.textContent = "Nothing found";
      list.append(none);
    }
    list.hidden = !words.length;
  }

  input.addEventListener("input", show);
  form.addEventListener("submit", function (event) {
    event.preventDefault();
    var first = list.querySelector("a");
    if (first) location.href = first.href;
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape") {
      input.value = "";
      show();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !list.hidden) {
      var links = Array.prototype.slice.call(list.querySelectorAll("a"));
      var next = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
      (links[next] || input).focus();
    }
  });
  document.addEventListener("click", function (event) {
    if (!form.contains(event.target)) list.hidden = true;
  });
})();
