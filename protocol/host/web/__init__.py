"""What every page of the project shares: drawings, colours, the style, and how a live page is served."""
