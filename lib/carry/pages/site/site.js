/* All pages: what scrolls sideways can be reached by keys. */
"use strict";

function reachBoxes() {
  for (const box of document.querySelectorAll("main pre, main .output_subarea"))
    if (box.scrollWidth > box.clientWidth && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.role = "group";
      box.ariaLabel = "Scrolls sideways";
    }
}
addEventListener("load", reachBoxes);
addEventListener("resize", reachBoxes);
