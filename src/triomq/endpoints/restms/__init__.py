"""RestMS over HTTP. It calls a feed what one writes to; in the core, and so here, a feed is a reader's stream."""
