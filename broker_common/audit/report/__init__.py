"""Output of an audit: `verdict` for programs and terminals, `page` as one HTML file for a commissioner."""
