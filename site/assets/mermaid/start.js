// Draws the diagrams of a page in its colours. Without scripts their source is shown.
mermaid.initialize({
  startOnLoad: false,
  securityLevel: "strict",
  theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "default",
});
mermaid.run({ querySelector: "code.language-mermaid" });
