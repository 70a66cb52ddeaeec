// The theme that the person chose; without a choice, the system's. Loaded before anything is shown.
const chosen = localStorage.getItem("engram-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
