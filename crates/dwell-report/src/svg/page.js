
// The legend and the two views of idle pools; everything else is inferno's.
(function () {
    // inferno's functions work on the element with the id "frames": the views swap it.
    function swap_views(control) {
        var hidden = document.getElementById("frames-hidden");
        if (searching) { reset_search(); searching = 0; end_search(); }
        unzoom();
        frames.id = "frames-hidden";
        frames.style.display = "none";
        hidden.id = "frames";
        hidden.style.display = "";
        hidden.attributes.width.value = frames.attributes.width.value;
        frames = hidden;
        total_samples = parseInt(frames.attributes.total_samples.value);
        var height = frames.getAttribute("data-height");
        svg.setAttribute("height", height);
        var background = svg.querySelector('rect[fill="url(#background)"]');
        if (background) background.setAttribute("height", height);
        var matched = document.getElementById("matched");
        if (matched) matched.setAttribute("y", height - 11);
        var label = control.getAttribute("data-fold");
        control.setAttribute("data-fold", control.textContent);
        control.textContent = label;
        unzoom();
    }
    function end_search() {
        searchbtn.classList.remove("show");
        searchbtn.firstChild.nodeValue = "Search";
        matchedtxt.classList.add("hide");
        matchedtxt.firstChild.nodeValue = "";
    }
    window.addEventListener("click", function (e) {
        if (e.target.id == "idle") return swap_views(e.target);
        var entry = e.target.closest ? e.target.closest("#legend g[data-search]") : null;
        if (!entry) return;
        if (searching) { reset_search(); searching = 0; end_search(); }
        search(entry.getAttribute("data-search"));
    }, false);
})();
